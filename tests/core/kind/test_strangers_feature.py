"""A feature of somebody else's, from a folder of its own (`diary/`): nothing of Tenuto is edited for it.

Each part that a `Feature` may have is a line of `diary/tenuto_diary/feature.py`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.callers import Operator
from servers.processes import until
from servers.service import RunningService
from servers.speed import HANG_S

FOLDER = Path(__file__).with_name("diary")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service beside which the package is installed."""
    folder = tmp_path_factory.mktemp("diary")
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    file = folder / "tenuto.toml"
    file.write_text('diary_ink = "black"\n')
    variables = {"PYTHONPATH": path, "DIARY": str(folder / "diary.txt"), "TENUTO_DIARY_PAGES": "7"}
    variables["TENUTO_CONFIG"] = str(file)
    service = RunningService(folder / "data", variables=variables)
    service.start()
    yield service
    service.stop()


def diary(running: RunningService) -> list[str]:
    """What the command prints."""
    return running.command("admin", "diary").stdout.splitlines()


def test_a_strangers_feature_takes_part(running: RunningService) -> None:
    """It is told when a service begins, what happens and what is erased; it has settings in the file and in
    variables, a duty, route and command.
    What it fails at is logged, and costs the job nothing."""
    operator = Operator(running)
    caller = operator.caller(credit="1")
    job_id = caller.post_job({"model": "fake/speech", "parameters": {"text": "a"}}).json()["id"]
    state = caller.wait(job_id)["state"]
    until(lambda: f"seen {job_id}" in diary(running), HANG_S, "it has seen the job")
    erased = caller.request("DELETE", f"/v1/jobs/{job_id}/content")
    shown = caller.get("/v1/diary").json()
    operator.close()
    lines = running.command("admin").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    logged = running.log_path.read_text()

    assert ("succeeded", 200) == (state, erased.status_code)
    assert {"begun data in black on 7", "kept house", f"seen {job_id}", f"erased {job_id}"} == set(
        diary(running)
    )
    assert diary(running) == shown[:-1]
    assert names.index("diary") == names.index("recover") + 1
    assert '"feature.failed"' in logged and '"attempt.abandoned"' not in logged


def test_a_wrong_value_of_its_setting_is_refused(running: RunningService, tmp_path: Path) -> None:
    """By name and with what it may be, as for any other setting."""
    variables = {**running.variables, "TENUTO_DIARY_PAGES": "0", "TENUTO_DIARY_INC": "blue"}
    refused = RunningService(tmp_path / "data", variables=variables).command("serve", check=False)

    assert 0 != refused.returncode
    assert "diary_pages: '0' is not an integer from 1 to 100" in refused.stderr
    assert "did you mean TENUTO_DIARY_INK?" in refused.stderr
