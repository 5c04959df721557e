"""A feature of somebody else's, from a folder of its own (`diary/`): nothing of Tenuto is edited for it.

Each part that a `Feature` may have is a line of `diary/tenuto_diary/feature.py`.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.callers import Operator
from servers.processes import until
from servers.service import RunningService
from servers.speed import HANG_S

FOLDER = Path(__file__).with_name("diary")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningService]:
    """A service beside which the package is installed."""
    file = tmp_path / "tenuto.toml"
    file.write_text('diary_ink = "black"\n')
    service = RunningService(tmp_path / "data", variables=beside(tmp_path) | {"TENUTO_CONFIG": str(file)})
    service.start()
    yield service
    service.stop()


def beside(folder: Path) -> dict[str, str]:
    """The variables of a process beside which the package is installed."""
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "DIARY": str(folder / "diary.txt"), "TENUTO_DIARY_PAGES": "7"}


def test_a_strangers_feature_takes_part(running: RunningService, tmp_path: Path) -> None:
    """It is told when a service begins, what happens and what is erased; it has settings in the file and in
    variables, a duty, route and command. What it fails at is logged, and costs the job nothing. Every request
    is one line of the log, without content or keys, with the path's template.
    """
    diary = tmp_path / "diary.txt"
    operator = Operator(running)
    caller = operator.caller(credit="1")
    job_id = caller.post_job({"model": "fake/speech", "parameters": {"text": "a"}}).json()["id"]
    state = caller.wait(job_id)["state"]
    until(lambda: f"seen {job_id}" in diary.read_text(), HANG_S, "it has seen the job")
    erased = caller.request("DELETE", f"/v1/jobs/{job_id}/content")
    shown = caller.get("/v1/diary")
    operator.close()
    lines = running.command("admin").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    log = list(map(json.loads, running.log_path.read_text().splitlines()))
    events = {line["event"] for line in log}
    [request] = [line for line in log if line.get("request_id") == shown.headers["x-request-id"]]
    printed = running.command("admin", "diary").stdout.splitlines()

    assert ("succeeded", 200) == (state, erased.status_code)
    assert {"begun data in black on 7", "kept house", f"seen {job_id}", f"erased {job_id}"} == set(printed)
    assert printed == shown.json()[:-1]
    assert names.index("diary") == names.index("recover") + 1
    assert "feature.failed" in events and "attempt.abandoned" not in events
    assert {"event", "level", "timestamp", "method", "route", "status", "ms", "request_id"} == set(request)
    assert ("http.request", "GET", "/v1/diary", 200) == tuple(
        request[name] for name in ("event", "method", "route", "status")
    )


def test_a_wrong_value_of_its_setting_is_refused(tmp_path: Path) -> None:
    """By name and with what it may be, as for any other setting."""
    variables = beside(tmp_path) | {"TENUTO_DIARY_PAGES": "0", "TENUTO_DIARY_INC": "blue"}
    refused = RunningService(tmp_path / "data", variables=variables).command("serve", check=False)

    assert 0 != refused.returncode
    assert "diary_pages: '0' is not an integer from 1 to 100" in refused.stderr
    assert "did you mean TENUTO_DIARY_INK?" in refused.stderr
