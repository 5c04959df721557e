"""`tenuto admin recover`, beside a service that runs: unknown outcomes, and money."""

import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import rows
from servers.command_lines import told
from servers.service import RunningService

pytestmark = pytest.mark.variant("database", only="postgresql")

METERED = "fake/metered-speech"


@pytest.fixture
def stuck(paid_service: RunningService) -> Callable[[str], str]:
    """Makes a job whose paid call has an unknown outcome, of an account with 1 CNY; gives its id."""

    def make(account: str) -> str:
        paid_service.key = paid_service.make_key(account, credit="1")
        job_id = paid_service.submit("[fake:unknown] Word.", model=METERED)
        assert "recovery_required" == paid_service.wait(job_id)["state"]
        return job_id

    return make


def test_jobs_that_wait_are_listed_and_shown_with_their_evidence(
    paid_service: RunningService, stuck: Callable[[str], str]
) -> None:
    """The list says which and why; `show` has the evidence, for people and as JSON (P10)."""
    job_id = stuck("shown")
    listed = {line["job"]: line for line in rows(paid_service.command("admin", "recover", "list"))}
    evidence = paid_service.command_json("admin", "evidence", job_id)
    text = paid_service.command("admin", "evidence", job_id).stdout
    [in_json] = [
        each for each in paid_service.command_json("admin", "recover", "list") if each["job"] == job_id
    ]

    assert (METERED, "1", "0.050000") == tuple(listed[job_id][name] for name in ("model", "attempts", "held"))
    assert (job_id, METERED) == (in_json["job"], in_json["model"])
    assert (
        f"  tenuto admin recover complete {job_id} --file FILE\n    0.050000 are charged, 0.000000 released"
        in text
    )
    assert f"  tenuto admin recover void {job_id}\n    nothing is charged, 0.050000 released" in text
    assert f"body_sha256          {evidence['job']['body_sha256']}\n" in text
    assert "recovery_required" == evidence["job"]["state"]
    assert 1 == len(evidence["attempts"])
    assert ["queued", "recovery_required"] == [evidence["events"][i]["type"] for i in (0, -1)]
    assert ("0.950000", "0.050000") == balance(paid_service, "shown")


def test_completing_with_a_file_charges_and_delivers_it(
    paid_service: RunningService, stuck: Callable[[str], str], tmp_path: Path
) -> None:
    """Without a recorded result the operator brings the bytes; those are what the caller downloads."""
    job_id = stuck("completed")
    file, garbage = tmp_path / "result.wav", tmp_path / "garbage.wav"
    write_wav(file)
    garbage.write_bytes(b"RIFF")
    without = paid_service.command("admin", "recover", "complete", job_id, check=False)
    wrong = paid_service.command("admin", "recover", "complete", job_id, "--file", str(garbage), check=False)
    done = paid_service.command("admin", "recover", "complete", job_id, "--file", str(file))
    operation = paid_service.wait(job_id)
    with paid_service.client() as client:
        content = client.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    assert f"bring one: tenuto admin recover complete {job_id} --file FILE" in told(without)
    assert "the file is not a result of a speech job, which is a WAV: " in told(wrong)
    assert done.stdout.startswith(f"{job_id} succeeded")
    assert ("succeeded", 100) == (operation["state"], operation["result"]["duration_ms"])
    assert file.read_bytes() == content
    assert ("0.950000", "0.000000") == balance(paid_service, "completed")


def test_requeueing_runs_it_again(paid_service: RunningService, stuck: Callable[[str], str]) -> None:
    """By the operator's word alone; this engine's outcome is unknown the second time, too."""
    job_id = stuck("requeued")
    done = paid_service.command(
        "admin", "recover", "requeue", job_id, "--operator", "alice", "--note", "ticket 7"
    )
    operation = paid_service.wait(job_id)
    shown = paid_service.command_json("admin", "evidence", job_id)
    [requeued] = [event for event in shown["events"] if event["type"] == "requeued"]

    assert f"{job_id} is queued again\n" == done.stdout
    assert ("alice", "ticket 7") == (requeued["operator"], requeued["note"])
    assert "requeued by alice: ticket 7" in [entry["note"] for entry in shown["money"]["entries"]]
    assert ("recovery_required", 2) == (operation["state"], operation["attempt"])
    assert ("0.950000", "0.050000") == balance(paid_service, "requeued")


@pytest.mark.parametrize(("options", "state"), [((), "failed"), (("--cancelled",), "cancelled")])
def test_voiding_releases_the_hold(
    paid_service: RunningService, stuck: Callable[[str], str], options: tuple[str, ...], state: str
) -> None:
    """The job ends failed or cancelled and nothing is charged; a second word finds nothing that waits."""
    job_id = stuck(f"voided {state}")
    done = paid_service.command("admin", "recover", "void", job_id, *options)
    again = paid_service.command("admin", "recover", "void", job_id, check=False)

    assert f"{job_id} is {state}, its hold released\n" == done.stdout
    assert state == paid_service.wait(job_id)["state"]
    assert ("1.000000", "0.000000") == balance(paid_service, f"voided {state}")
    assert f"is {state} and does not wait for recovery; `tenuto admin recover list` shows" in told(again)
    assert 1 == again.returncode


def balance(service: RunningService, account: str) -> tuple[str, str]:
    """What an account has, and what is held of it."""
    [own] = [line for line in service.command_json("admin", "accounts", "list") if line["name"] == account]
    return own["available"], own["held"]


def write_wav(path: Path) -> None:
    """A tenth of a second of silence."""
    with wave.open(str(path), "wb") as wav:
        wav.setparams((1, 2, 24_000, 0, "NONE", ""))
        wav.writeframes(bytes(2 * 2400))
