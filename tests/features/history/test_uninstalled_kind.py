"""A stranger's kind in lists and in usage, while its package is installed and afterwards."""

import sys
from pathlib import Path

from servers.callers import Operator, faults
from servers.service import RunningService

FOLDER = Path(__file__).parents[1] / "models" / "shout"
MODEL = "toy/shout"


def test_jobs_of_a_strangers_kind_are_listed_and_counted(tmp_path: Path) -> None:
    """By its name, also without the package; other kinds are refused by name."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={FOLDER} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    file = tmp_path / "tenuto.toml"
    file.write_text(f'[models."{MODEL}"]\nadapter = "shout"\ninterpreter = "{python}"\n')
    service = RunningService(
        tmp_path / "data", variables={"TENUTO_CONFIG": str(file), "PYTHONPATH": str(FOLDER)}
    )
    service.start()
    operator = Operator(service)
    caller = operator.caller(credit="1")
    job_id = caller.post_job({"model": MODEL, "parameters": {"text": "x"}}).json()["id"]
    caller.wait(job_id)
    listed = caller.get("/v1/jobs?kind=shout").json()["data"]
    refused = faults(caller.get("/v1/jobs?kind=dance"))
    operator.close()
    service.stop()
    without = RunningService(service.folder)
    without.start()
    with without.client(caller.key) as http:
        still_listed = http.get("/v1/jobs").json()["data"]
        [usage] = http.get("/v1/usage").json()["data"]
    without.stop()

    assert [job_id] == [job["id"] for job in listed] == [job["id"] for job in still_listed]
    assert [("kind", "not_allowed")] == refused
    assert ("shout", 1, 0) == (usage["kind"], usage["jobs"], usage["images"])
