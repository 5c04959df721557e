"""A fourth kind of job, from a folder of its own (`shout/`): nothing of Tenuto is edited for it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.callers import Caller, Operator, faults
from servers.service import RunningService

FOLDER = Path(__file__).with_name("shout")
MODEL = "toy/shout"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("shouting")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={FOLDER} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    file = folder / "tenuto.toml"
    file.write_text(f'[models."{MODEL}"]\nadapter = "shout"\ninterpreter = "{python}"\n')
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"TENUTO_CONFIG": str(file), "PYTHONPATH": path}
    service = RunningService(folder / "data", variables=variables)
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def operator(running: RunningService) -> Iterator[Operator]:
    there = Operator(running)
    yield there
    there.close()


@pytest.fixture
def caller(operator: Operator) -> Caller:
    return operator.caller(credit="1")


def shout(**parameters: Any) -> dict[str, Any]:
    return {"model": MODEL, "parameters": parameters}


def test_a_fourth_kind_runs_from_submission_to_ledger(caller: Caller) -> None:
    accepted = caller.post_job(shout(text="hold the note", times=2))
    done = caller.wait(accepted.json()["id"])
    [artifact] = done["artifacts"]
    content = caller.get(f"/v1/artifacts/{artifact['id']}/content")
    balance = caller.get("/v1/account/balance").json()
    lines = caller.get("/v1/account/ledger").json()["data"]
    [model] = [each for each in caller.get("/v1/models").json()["data"] if each["id"] == MODEL]

    assert (202, "succeeded") == (accepted.status_code, done["state"])
    assert ("text/plain", {"times": 2}) == (artifact["media_type"], artifact["metadata"])
    assert (200, b"HOLD THE NOTE HOLD THE NOTE") == (content.status_code, content.content)
    assert "0.930000" == balance["available"]
    assert ["settle", "hold", "credit"] == [line["type"] for line in lines]
    assert ("shout", True, {"text_characters": 100}) == (model["kind"], model["callable"], model["limits"])
    assert ("0.070000", "0.090000") == (model["pricing"]["price"], model["pricing"]["hold"])


def test_a_fourth_kind_checks_its_parameters_and_its_results(caller: Caller) -> None:
    refused = caller.post_job(shout(text="", times=6, volume=11))
    failed = caller.wait(caller.post_job(shout(text="whisper")).json()["id"])

    assert [
        ("parameters.text", "empty"),
        ("parameters.times", "out_of_range"),
        ("parameters.volume", "unknown_name"),
    ] == faults(refused)
    assert ("failed", "engine_failed") == (failed["state"], failed["error"]["code"])
    assert "1.000000" == caller.get("/v1/account/balance").json()["available"]


def test_jobs_of_a_kind_that_was_uninstalled_stay_readable(
    running: RunningService, operator: Operator
) -> None:
    caller = operator.caller(credit="1")
    job_id = caller.wait(caller.post_job(shout(text="stay")).json()["id"])["id"]
    running.stop()
    without = RunningService(running.folder)
    without.start()
    try:
        with without.client(caller.key) as http:
            operation = http.get(f"/v1/jobs/{job_id}").json()
            content = http.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content")

        assert ("succeeded", b"STAY") == (operation["state"], content.content)
    finally:
        without.stop()
        running.start()
