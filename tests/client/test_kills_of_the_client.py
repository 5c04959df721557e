"""The client is killed at every step; run again, or resumed, it produces one job and its file."""

import hashlib
import os
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator
from servers.service import RunningService

TESTS = Path(__file__).parents[1]
KILLED = -9
NEVER = 1_000_000
MAX_STEPS = 60
FIRST_UPLOAD = 2
"""No recording was uploaded before this step."""

Client = Callable[..., subprocess.CompletedProcess[str]]


def client_of(
    service: RunningService, caller: Caller, folder: Path, program: str = "client.killed"
) -> Client:
    """Runs the client as that caller, in that folder."""
    folder.mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    own = {"TENUTO_API_KEY": caller.key, "TENUTO_BASE_URL": service.url, "PYTHONPATH": str(TESTS)}
    environment = kept | own | {"TENUTO_JOURNAL": str(folder / "journal")}

    def run(*words: str, step: int = NEVER, when: str = "before") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", program, str(step), when, *words]
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120
        )

    return run


def ledger(caller: Caller) -> list[str]:
    """The types of an account's ledger lines but for its opening credit."""
    lines = caller.get("/v1/account/ledger?limit=100").json()["data"]
    return sorted(line["type"] for line in lines if line["type"] != "credit")


def check(caller: Caller, file: Path) -> str:
    """One job, one charge, the file there; gives what was wrong, or nothing."""
    jobs = caller.get("/v1/jobs").json()["data"]
    if [job["state"] for job in jobs] != ["succeeded"]:
        return f"jobs: {jobs}"
    if ledger(caller) != ["hold", "settle"]:
        return f"ledger: {ledger(caller)}"
    if not file.exists():
        return f"no file; there are {[path.name for path in file.parent.iterdir()]}"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if file.suffix in (".wav", ".json") and digest != jobs[0]["artifacts"][0]["sha256"]:
        return "the file is not the result"
    left = [p.name for p in (*file.parent.iterdir(), *(file.parent / "journal").iterdir())]
    stale = [name for name in left if name.endswith((".part", ".journal", ".new"))]
    return f"left behind: {stale}" if stale else ""


# What is killed after a step stands where one stands that is killed before the next: once each is enough.
# One kind on each database, for the client cannot tell them apart.
@pytest.mark.parametrize(
    ("service", "kind", "killed"),
    [
        ("sqlite", "say", ("client.killed", "before")),
        ("postgresql", "transcribe", ("client.killed", "after")),
        pytest.param("sqlite", "say", ("client.windows", "after"), marks=pytest.mark.variant("program")),
    ],
    ids=["say", "transcribe", "say-windows"],
    indirect=["service"],
    scope="session",
)
def test_whenever_it_is_killed_there_is_one_job_one_charge_and_the_file(
    kind: str, killed: tuple[str, str], service: RunningService, operator: Operator, tmp_path: Path
) -> None:
    """SIGKILL before and after each step; the same command again, or `resume`, finishes the work (P2, P9).

    So it does on a stand-in for Windows.
    """
    program, when = killed
    recording = tmp_path / "said.wav"
    with wave.open(str(recording), "wb") as wav:
        wav.setparams((1, 2, 16_000, 0, "NONE", ""))
        wav.writeframes(b"\1\2" * 16_000)
    words = {
        "say": ["say", "Hold the note.", "-o", "out.wav"],
        "transcribe": ["transcribe", str(recording), "-o", "out.json"],
    }[kind]
    wrong: dict[int, Any] = {}
    for step in range(MAX_STEPS):
        caller = operator.caller(credit="100")
        run = client_of(service, caller, tmp_path / str(step), program)
        first = run(*words, step=step, when=when)
        if first.returncode != KILLED:
            break
        begun = any((tmp_path / str(step) / "journal").glob("*.journal"))
        # `resume` finishes what was begun; before the journal knows of it there is nothing to finish.
        second = run("resume") if step % 2 and begun else run(*words)
        file = tmp_path / str(step) / words[-1]
        found = check(caller, file) or (second.returncode and second.stderr)
        if found:
            wrong[step] = found

    assert {} == wrong
    assert (0, True) == (first.returncode, step > 8), first.stderr


@ON_ONE_DATABASE
def test_an_upload_that_was_erased_before_it_was_noted_is_sent_anew(
    service: RunningService, operator: Operator, tmp_path: Path
) -> None:
    """Killed between upload and note, its input erased since: resumed, it ends with one job (R112, P9)."""
    recording = tmp_path / "said.wav"
    with wave.open(str(recording), "wb") as wav:
        wav.setparams((1, 2, 16_000, 0, "NONE", ""))
        wav.writeframes(b"\1\2" * 16_000)
    caller = operator.caller(credit="6")
    run = client_of(service, caller, tmp_path / "here")
    uploaded: list[Any] = []
    steps = iter(range(FIRST_UPLOAD, MAX_STEPS))
    while not uploaded:
        killed = run("transcribe", str(recording), "-o", "out.json", step=next(steps), when="after")
        uploaded = operator.database.read(
            lambda tx: tx.all("select id from artifact where account_id = :id", id=caller.account_id)
        )
    erased = caller.request("DELETE", f"/v1/artifacts/{uploaded[0]['id']}")
    resumed = run("transcribe", str(recording), "-o", "out.json")

    assert (KILLED, 200, 0) == (killed.returncode, erased.status_code, resumed.returncode), resumed.stderr
    assert "" == check(caller, tmp_path / "here" / "out.json")


@pytest.mark.parametrize("program", ["client.killed", "client.windows"])
def test_what_runs_is_not_taken_up_by_another(
    program: str, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    """Two of the same command at once are two pieces of work; `resume` leaves both alone (P9)."""
    run = client_of(service, caller, tmp_path / "here", program)
    environment = os.environ | {
        "TENUTO_API_KEY": caller.key,
        "TENUTO_BASE_URL": service.url,
        "TENUTO_JOURNAL": str(tmp_path / "here" / "journal"),
        "PYTHONPATH": str(TESTS),
    }
    never = [str(NEVER), "before"]
    words = [sys.executable, "-m", program, *never, "say", "[fake:sleep=1.5] Hold.", "-o", "out.wav"]
    both = [subprocess.Popen(words, env=environment, cwd=tmp_path / "here") for _ in range(2)]
    resumed = run("resume")
    codes = [process.wait(60) for process in both]

    assert ([0, 0], 0) == (codes, resumed.returncode)
    assert 2 == len(caller.get("/v1/jobs").json()["data"])
    assert ["hold", "hold", "settle", "settle"] == ledger(caller)
