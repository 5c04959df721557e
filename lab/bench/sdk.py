"""What the client costs: its start beside openai's, what it adds to a job, its downloads beside curl's."""

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx2
from lab.bench.report import Row, above, below
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer
from servers.service import TENUTO
from tenuto_client import Tenuto

STARTS = 11
HELP_MS = 150.0
JOBS = 9
JOB_S = 1.4
"""How long a job of the polling measure runs: not a multiple of any wait."""
LOOK_S = 0.005
"""How often whoever asks without pause asks."""
OVERHEAD_MS = 150.0
DOWNLOADS = 15
LONG_TEXT = "a" * 8192
DOWNLOAD_RATIO = 0.9

IMPORTS = {
    "ours": "import tenuto_client",
    "ours, ready to call": "import tenuto_client; tenuto_client.Tenuto('tn_x', 'http://127.0.0.1:1')",
    "openai": "import openai",
    "openai, ready to call": "import openai; openai.OpenAI(api_key='x', base_url='http://127.0.0.1:1')",
}


def measure(postgres: PostgresServer | None) -> list[Row]:
    """On SQLite alone: the client cannot tell the databases apart."""
    if postgres is not None:
        return []
    rows = [*_starts(), _help()]
    with stage(None) as running, Tenuto(running.keys[0], f"http://127.0.0.1:{running.port}") as client:
        return [*rows, _polling(running, client), _download(running, client)]


def _starts() -> list[Row]:
    """Milliseconds of a process that imports and ends, beyond one that only ends; in turns."""
    commands: dict[str, Sequence[str]] = {"nothing": [sys.executable, "-c", "pass"]}
    commands |= {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
    took = _in_turns({name: _command(command) for name, command in commands.items()}, STARTS)
    ms = {name: (value - took["nothing"]) * 1000 for name, value in took.items()}
    return [
        below(f"SDK: {what}", ms[ours], ms[theirs], "ms", f"openai's {theirs_said}, in turns", digits=0)
        for what, ours, theirs, theirs_said in (
            ("import", "ours", "openai", "import"),
            ("import and a client", "ours, ready to call", "openai, ready to call", "import and a client"),
        )
    ]


def _help() -> Row:
    took = _in_turns({"help": _command([TENUTO, "say", "-h"])}, STARTS)
    return below(
        "`tenuto say -h`, the whole process",
        took["help"] * 1000,
        HELP_MS,
        "ms",
        "what feels instant",
        digits=0,
    )


def _polling(running: Stage, client: Tenuto) -> Row:
    """How much later the client knows of a job's end than one who asks every 5 ms."""
    numbers = itertools.count()

    def text() -> str:
        return f"[fake:sleep={JOB_S}] {next(numbers)}"

    def ours() -> None:
        client.speech.create(text(), model="fake/speech").wait()

    headers = {"Authorization": f"Bearer {running.keys[0]}"}
    with httpx2.Client(base_url=client.base_url, headers=headers) as http:

        def theirs() -> None:
            body = {"model": "fake/speech", "parameters": {"text": text()}}
            key = {"Idempotency-Key": f"bench-{next(numbers)}"}
            job = http.post("/v1/jobs", json=body, headers=key).json()
            while http.get(f"/v1/jobs/{job['id']}").json()["state"] != "succeeded":
                time.sleep(LOOK_S)

        took = _in_turns({"ours": ours, "theirs": theirs}, JOBS)
    late_ms = (took["ours"] - took["theirs"]) * 1000
    return below(
        f"SDK: knows the end of a job of {JOB_S} s later by",
        late_ms,
        OVERHEAD_MS,
        "ms",
        f"than one who asks every {LOOK_S * 1000:.0f} ms; journal and its fsyncs included",
        digits=0,
    )


def _download(running: Stage, client: Tenuto) -> Row:
    """The rate of a download, checked, fsynced and in its place, beside curl's."""
    job = client.speech.create(LONG_TEXT, model="fake/speech", duration_factor=2.0).wait()
    [artifact] = job.operation.artifacts
    url = f"{client.base_url}/v1/artifacts/{artifact.id}/content"
    header = f"Authorization: Bearer {running.keys[0]}"
    target = Path(running.folder, "curl.wav")
    curl = ["curl", "--silent", "--fail", "--header", header, "--output", str(target), url]

    def ours() -> None:
        job.download(running.folder / "ours.wav")

    took = _in_turns({"curl": _command(curl), "ours": ours}, DOWNLOADS)
    megabytes = artifact.size_bytes / 1e6
    return above(
        f"SDK: download of {megabytes:.0f} MB with SHA-256 and fsync",
        took["curl"] / took["ours"],
        DOWNLOAD_RATIO,
        "× curl",
        f"curl without either: {megabytes / took['curl']:.0f} MB/s; ours {megabytes / took['ours']:.0f} MB/s",
        digits=2,
    )


def _command(command: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return run


def _in_turns(actions: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median seconds of each; they take turns, so that all have the same weather."""
    took: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            took[name].append(time.perf_counter() - began)
    return {name: statistics.median(values[1:]) for name, values in took.items()}
