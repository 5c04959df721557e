"""Client, batch and an assistant's server are cut off at every step; again, each has one job and its file."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client import test_javascript as javascript
from client.conftest import sound
from client.test_batch import report_of
from servers.callers import ON_ONE_DATABASE, Caller, Operator
from servers.service import RunningService
from tenuto_client import Tenuto
from tenuto_client.batch import REPORT
from tenuto_client.drive import Driver
from tenuto_client.steps import Pause, Step

TESTS = Path(__file__).parents[1]
KILLED = -9
NEVER = 1_000_000
MAX_STEPS = 60
MAX_BATCH_STEPS = 200
FIRST_UPLOAD = 2
"""No recording was uploaded before this step."""

WAITS_2_S = 1120
"""A sound of this value makes the fake engine wait."""

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
    recording.write_bytes(sound(1, 16_000, 1))
    words = {
        "say": ["say", "Hold the note.", "-o", "out.wav"],
        "transcribe": ["transcribe", str(recording), "-o", "out.json"],
    }[kind]

    def killed_and_again(step: int, caller: Caller) -> tuple[Any, str]:
        run = client_of(service, caller, tmp_path / str(step), program)
        first = run(*words, step=step, when=when)
        if first.returncode != KILLED:
            return first, ""
        begun = any((tmp_path / str(step) / "journal").glob("*.journal"))
        # `resume` finishes what was begun; before the journal knows of it there is nothing to finish.
        second = run("resume") if step % 2 and begun else run(*words)
        told = second.stderr if second.returncode else ""
        return first, check(caller, tmp_path / str(step) / words[-1]) or told

    at_each_step(operator, killed_and_again)


def at_each_step(operator: Operator, killed_and_again: Callable[[int, Caller], tuple[Any, str]]) -> None:
    """Kills a program at every step, until it comes to its end; nothing is wrong at any."""
    wrong: dict[int, str] = {}
    for step in range(MAX_STEPS):
        first, found = killed_and_again(step, operator.caller(credit="100"))
        if first.returncode != KILLED:
            break
        if found:
            wrong[step] = found

    assert {} == wrong
    assert (0, True) == (first.returncode, step > 5), first.stderr


@javascript.is_built
@ON_ONE_DATABASE
def test_whenever_the_client_for_javascript_is_killed_there_is_one_job_one_charge_and_the_file(
    service: RunningService, operator: Operator, tmp_path: Path
) -> None:
    """SIGKILL after each request and each write of the journal; run again, it resumes (P2, P9)."""

    def killed_and_again(step: int, caller: Caller) -> tuple[Any, str]:
        folder = tmp_path / str(step)
        folder.mkdir()
        words = ("node", str(javascript.TESTS / "killed.mjs"))
        key = {"TENUTO_BASE_URL": service.url, "TENUTO_API_KEY": caller.key}
        first, second = (
            javascript.run(*words, str(last), "after", folder=folder, **key) for last in (step, NEVER)
        )
        left = {path.name for path in folder.rglob("*")} - {"out.wav", "journal"}
        return first, check(caller, folder / "out.wav") or second.stderr or str(left or "")

    at_each_step(operator, killed_and_again)


@ON_ONE_DATABASE
def test_an_upload_that_was_erased_before_it_was_noted_is_sent_anew(
    service: RunningService, operator: Operator, tmp_path: Path
) -> None:
    """Killed between upload and note, its input erased since: resumed, it ends with one job (R112, P9)."""
    recording = tmp_path / "said.wav"
    recording.write_bytes(sound(1, 16_000, 1))
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


class Cut(BaseException):
    """The program stops here."""


@ON_ONE_DATABASE
def test_wherever_a_batch_is_cut_off_each_line_has_one_job_one_charge_and_its_file(
    service: RunningService, operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off before each step, the same batch again finishes it (P2, P9)."""
    (tmp_path / "talk.wav").write_bytes(sound(1))
    lines = [{"id": "a", "prompt": "A lake."}, {"id": "b", "file": str(tmp_path / "talk.wav")}]
    shipped, left = Driver._perform, 0

    def perform(driver: Driver, step: Step) -> Any:
        nonlocal left
        if isinstance(step, Pause):
            return shipped(driver, Pause(0.01))
        left -= 1
        if left == -1:
            raise Cut
        return shipped(driver, step)

    monkeypatch.setattr(Driver, "_perform", perform)
    wrong: dict[int, Any] = {}
    for step in range(MAX_BATCH_STEPS):
        caller, folder = operator.caller(credit="100"), tmp_path / str(step)
        left = step
        with Tenuto(caller.key, service.url) as client:
            try:
                client.batch(lines, folder, forms=["json"])
                break
            except Cut:
                client.batch(lines, folder, forms=["json"])
        if found := fault_of_batch(caller, folder):
            wrong[step] = found

    assert {} == wrong
    assert 20 < step < MAX_BATCH_STEPS - 1


def fault_of_batch(caller: Caller, folder: Path) -> str:
    """What is wrong with a batch of two lines that should be complete, or nothing."""
    jobs = {job["id"]: job for job in caller.get("/v1/jobs").json()["data"]}
    report = report_of(folder)
    if sorted(line["job"] for line in report.values()) != sorted(jobs):
        return f"jobs: {sorted(jobs)}, report: {report}"
    if ledger(caller) != ["hold", "hold", "settle", "settle"]:
        return f"ledger: {ledger(caller)}"
    for line in report.values():
        digest = hashlib.sha256((folder / line["file"]).read_bytes()).hexdigest()
        if not digest == line["sha256"] == jobs[line["job"]]["artifacts"][0]["sha256"]:
            return f"{line['file']} is not the result"
    names = sorted(path.name for path in folder.iterdir())
    return "" if names == [".tenuto", "a.png", "b.json", REPORT] else f"files: {names}"


def lines_of(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """What an assistant's program prints."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def begin(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "client.assistant", str(folder), *words],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_with_its_server(process: "subprocess.Popen[str]") -> str:
    """SIGKILL client and server once the task's recognition goes on; gives the task."""
    servers: list[int] = []
    task = ""
    for event in lines_of(process):
        servers, task = event.get("server", servers), event.get("task", task)
        if task and "recognising" in str(event.get("message")):
            for pid in (process.pid, *servers):
                os.kill(pid, signal.SIGKILL)
            process.wait()
            return str(task)
    raise AssertionError("its recognition never went on")


def result_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    (result,) = [event["result"] for event in lines_of(process) if "result" in event]
    assert 0 == process.wait(30) and not result["is_error"], result
    facts: dict[str, Any] = result["structured_content"]
    return facts


@ON_ONE_DATABASE
def test_a_killed_client_asks_another_server_for_its_task(as_caller: Caller, folder: Path) -> None:
    """SIGKILL of client and server in the middle of a transcription. The task's id is the job's: a server
    that was started later knows it and saves its file, and the same call gets the same job (P2, P9)."""
    (folder / "talk.wav").write_bytes(sound(1, 16_000, 1, WAITS_2_S))
    words = ("transcribe", json.dumps({"file": "talk.wav", "output": "talk.txt"}))
    task = killed_with_its_server(begin(folder, "task", *words))
    [running] = as_caller.get("/v1/jobs").json()["data"]
    results = [
        result_of(begin(folder, *line)) for line in (("poll", task), ("call", *words), ("task", *words))
    ]

    assert (task, "running") == (running["id"], running["state"])
    assert [(task, "talk.txt")] * 3 == [(each["job_id"], each["file"]) for each in results]
    assert ["hold", "settle"] == ledger(as_caller)
    assert {".tenuto", "talk.txt", "talk.wav"} == {path.name for path in folder.iterdir()}
