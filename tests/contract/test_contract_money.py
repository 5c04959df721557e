"""Prices: holds, charges, releases, a balance that does not suffice, and what an operator recovers."""

import wave
from pathlib import Path

import httpx2

from servers.callers import METERED, Caller, Operator, error_code, job


def billing(operation: dict[str, dict[str, str]]) -> tuple[str, str]:
    assert operation["billing"]["currency"] == "CNY"
    return operation["billing"]["held"], operation["billing"]["charged"]


def recovering(paid: Operator) -> tuple[Caller, str]:
    """A caller with 0.10 CNY whose metered job's outcome is unknown."""
    caller = paid.caller(credit="0.10")
    job_id = caller.submit("[fake:unknown] x", model=METERED)
    assert "recovery_required" == caller.wait(job_id)["state"]
    return caller, job_id


def test_a_replay_charges_nothing(paid: Operator) -> None:
    """However often a job is sent, it is held for and charged once, and needs no balance again (R19, R37)."""
    caller = paid.caller(credit="0.05")
    answers = [caller.post_job(job(), key="order-1") for _ in range(3)]
    caller.wait(answers[0].json()["id"])
    answers.append(caller.post_job(job(), key="order-1"))

    assert 1 == len({answer.json()["id"] for answer in answers})
    assert (0, 0) == paid.money(caller)
    assert (403, "insufficient_balance") == error_code(caller.post_job(job(), key="order-4"))


def test_a_balance_that_does_not_suffice_is_403(paid: Operator) -> None:
    """Without cover nothing is stored and the key stays free; with credit the request goes (R209)."""
    caller = paid.caller(credit="0.04")
    refused = caller.post_job(job(), key="order-2")
    before = caller.newest()
    paid.service.command("admin", "accounts", "credit", caller.account_id, "0.01")
    accepted = caller.post_job(job(), key="order-2")

    assert (403, "insufficient_balance") == error_code(refused)
    assert [] == before
    assert (202, None) == (accepted.status_code, accepted.headers.get("idempotent-replayed"))
    assert "succeeded" == caller.wait(accepted.json()["id"])["state"]
    assert (0, 0) == paid.money(caller)


def test_failures_and_cancels_release_everything(paid: Operator) -> None:
    """A job that fails or is cancelled, queued or running, gives its whole hold back (R217)."""
    caller = paid.caller(credit="1")
    running = caller.block_lane()
    queued, failing = caller.submit("x"), caller.submit("[fake:raise] x")
    held = paid.money(caller)
    ended = [caller.cancel(queued), caller.cancel(running)]
    ended = [caller.wait(job_id) for job_id in (queued, running, failing)]

    assert (850_000, 150_000) == held
    assert ["cancelled", "cancelled", "failed"] == [operation["state"] for operation in ended]
    assert [("0.000000", "0.000000")] * 3 == [billing(operation) for operation in ended]
    assert (1_000_000, 0) == paid.money(caller)


def test_an_unknown_outcome_waits_with_its_hold(paid: Operator) -> None:
    """recovery_required is a state with HTTP 200: no file, no new attempt, the hold kept (R35–R38)."""
    caller, job_id = recovering(paid)
    answer: httpx2.Response = caller.get(f"/v1/jobs/{job_id}")
    operation = answer.json()
    cancelled = caller.cancel(job_id)

    assert (200, None) == (answer.status_code, answer.headers.get("retry-after"))
    assert ("recovery_required", 1, []) == tuple(operation[n] for n in ("state", "attempt", "artifacts"))
    assert ("0.100000", "0.000000") == billing(operation)
    assert (0, 100_000) == paid.money(caller)
    assert "recovery_required" == cancelled["state"]
    assert job_id in paid.service.command("admin", "recover", "list").stdout
    shown = paid.service.command_json("admin", "evidence", job_id)
    assert (job_id, 1) == (shown["job"]["id"], len(shown["attempts"]))
    assert "unknown" == shown["attempts"][0]["outcome"]
    paid.service.command("admin", "recover", "void", job_id)


def test_an_operator_completes_with_a_file(paid: Operator, tmp_path: Path) -> None:
    """`recover complete --file` ends it with those bytes, charged once; a second time is refused (R37)."""
    caller, job_id = recovering(paid)
    file = tmp_path / "result.wav"
    with wave.open(str(file), "wb") as wav:
        wav.setparams((1, 2, 24_000, 0, "NONE", ""))
        wav.writeframes(bytes(48_000))
    without = paid.service.command("admin", "recover", "complete", job_id, check=False)
    paid.service.command("admin", "recover", "complete", job_id, "--file", str(file))
    again = paid.service.command("admin", "recover", "complete", job_id, "--file", str(file), check=False)
    operation = caller.read(job_id)
    content = caller.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    assert ("succeeded", ("0.000000", "0.080000")) == (operation["state"], billing(operation))
    assert file.read_bytes() == content
    assert (20_000, 0) == paid.money(caller)
    assert 0 not in (without.returncode, again.returncode)
    assert "--file" in without.stderr


def test_an_operator_runs_a_job_again_and_gives_it_up(paid: Operator) -> None:
    """`recover requeue` makes a new attempt under the same hold, by name only; `recover void` releases the
    hold (R36, R37, R217)."""
    caller, job_id = recovering(paid)
    paid.service.command("admin", "recover", "requeue", job_id)
    caller.wait(job_id, ("queued", "running", "recovery_required"))
    while (operation := caller.wait(job_id, ("recovery_required",)))["attempt"] < 2:
        continue
    held = (billing(operation), paid.money(caller))
    paid.service.command("admin", "recover", "void", job_id, "--cancelled")

    assert (("0.100000", "0.000000"), (0, 100_000)) == held
    assert ("cancelled", (100_000, 0)) == (caller.read(job_id)["state"], paid.money(caller))


def test_the_books_balance_in_the_end(paid: Operator) -> None:
    """`tenuto admin audit` finds nothing after all that was done to this service (R37, R217)."""
    done = paid.service.command("admin", "audit", check=False)

    assert 0 == done.returncode, done.stdout
