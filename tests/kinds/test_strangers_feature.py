"""A feature of somebody else's, from a folder of its own (`diary/`): nothing of Tenuto is edited for it.

Each part that a `Feature` may have is a line of `diary/tenuto_diary/feature.py`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.callers import Operator
from servers.service import RunningService

FOLDER = Path(__file__).with_name("diary")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service beside which the package is installed."""
    folder = tmp_path_factory.mktemp("diary")
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"PYTHONPATH": path, "DIARY": str(folder / "diary.txt")}
    service = RunningService(folder / "data", variables=variables)
    service.start()
    yield service
    service.stop()


def diary(running: RunningService) -> list[str]:
    """What the command prints."""
    return running.command("admin", "diary").stdout.splitlines()


@pytest.mark.in_core
def test_a_strangers_feature_takes_part(running: RunningService) -> None:
    """It is told when a service begins and what is erased, and brings a command that prints it."""
    operator = Operator(running)
    caller = operator.caller(credit="1")
    job_id = caller.post_job({"model": "fake/speech", "parameters": {"text": "a"}}).json()["id"]
    caller.wait(job_id)
    erased = caller.request("DELETE", f"/v1/jobs/{job_id}/content")
    operator.close()

    assert 200 == erased.status_code
    assert ["begun data", f"erased {job_id}"] == diary(running)


@pytest.mark.in_core
def test_the_service_beside_it_is_whole(running: RunningService) -> None:
    """It lives, shows a key its models, and knows its commands."""
    key = running.make_key("reader")
    with running.client(key) as http:
        lives = http.get("/livez").status_code
        models = [model["id"] for model in http.get("/v1/models").json()["data"] if model["callable"]]
    usage = running.command("serve", "--help").stdout

    assert 200 == lives
    assert "fake/speech" in models
    assert "tenuto serve" in usage


def test_its_command_is_in_the_list(running: RunningService) -> None:
    """Behind the one that it names, among the operator's."""
    lines = running.command("admin").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]

    assert names.index("diary") == names.index("audit") + 1
