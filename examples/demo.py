"""What Tenuto does, in one go: `make demo`, or `make demo KINDS=speech` for the part named.

It starts a service of its own, makes an account and a key, and then is a caller like any other: with
`tenuto_client` it speaks two sentences, transcribes one of them, asks a chat model, and
draws where an image model is callable. Start reading at `main`. All that it writes is under demo/.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tenuto_client import Job, Tenuto, TenutoError
from tenuto_client.transcripts import written

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "demo"
DATA = FOLDER / "data"
LOG = FOLDER / "service.log"
TENUTO = str(Path(sys.executable).with_name("tenuto"))

WEIGHTS = {
    "speech": "hexgrad/Kokoro-82M",
    "recognition": "tenuto/dual-recognition",
    "chat": "Qwen/Qwen2.5-Coder-0.5B-Instruct",
    "image": "tenuto/pictograms",
}
TEXTS = {
    "chinese": ("zh", "音符要唱足它的时值。这份工作一旦被接受，就不会丢失。"),
    "english": ("en", "Hold the note for its full value. A job that was accepted is never lost."),
}
QUESTION = "In one short sentence: what is a musical note?"
PROMPT = "A red fox on a green meadow."
CREDIT = "10"

READY_S = 60.0

console = Console(highlight=False, soft_wrap=True)


class Failed(Exception):
    """What went wrong, for the person at the terminal."""


@dataclass(frozen=True)
class Row:
    """One piece of work that is done."""

    kind: str
    id: str
    taken_s: float
    charged: str
    result: str


def main() -> int:
    """Everything, one line a step; 0 when all that was asked for is there and verified."""
    try:
        kinds = wanted()
        start_afresh()
        pull_weights(kinds)
        with running_service() as url:
            key = make_account_and_key()
            with Tenuto(key, url, journal=DATA / "journal") as client:
                rows = [row for kind in kinds for row in KINDS[kind](client)]
                balance = client.account.balance()
        show(rows)
        console.print(f"\nOf {CREDIT} {balance.currency}, {balance.available} are left.")
        show_how_to_go_on(key)
    except (Failed, TenutoError) as error:
        console.print(f"\nmake demo failed: {error}", style="bold red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def wanted() -> list[str]:
    """The kinds of work to show: KINDS, comma-separated, or all."""
    named = [kind.strip() for kind in os.environ.get("KINDS", "").split(",") if kind.strip()]
    unknown = [kind for kind in named if kind not in KINDS]
    if unknown:
        raise Failed(f"unknown kind {', '.join(unknown)}; KINDS takes {', '.join(KINDS)}, comma-separated")
    return [kind for kind in KINDS if kind in (named or KINDS)]


def speak(client: Tenuto) -> Iterator[Row]:
    """Two sentences; `download` waits, and puts the file in its place once it is verified."""
    for name, (lang, text) in TEXTS.items():
        began = time.monotonic()
        job = client.speech.create(text, lang=lang)  # type: ignore[arg-type]
        console.print(f"{job.id}: {text}", markup=False)
        file = job.download(FOLDER / f"{name}.wav")
        yield row("speech", job, began, f"{job_seconds(job):.1f} s in {file.relative_to(ROOT)}")


def recognise(client: Tenuto) -> Iterator[Row]:
    """What is heard in the English sentence, spoken here when it is not there yet; it is sent as FLAC."""
    recording = FOLDER / "english.wav"
    if not recording.exists():
        client.speech.create(TEXTS["english"][1], lang="en").download(recording)
    began = time.monotonic()
    job = client.recognition.create(recording, language="en")
    console.print(f"{job.id}: transcribing {recording.relative_to(ROOT)}", markup=False)
    heard = " ".join(written(job.json(), "txt").split())
    yield row("recognition", job, began, f"“{heard}”")


def ask(client: Tenuto) -> Iterator[Row]:
    """A question and its answer. A chat is not a job: it has no id and is not stored."""
    console.print(f"chat: {QUESTION}", markup=False)
    began = time.monotonic()
    answer = client.chat.completions.create([{"role": "user", "content": QUESTION}], max_tokens=60, seed=1)
    said = " ".join(answer.content.split())
    yield Row("chat", f"{answer.usage.total_tokens} tokens", time.monotonic() - began, "free", f"“{said}”")


def draw(client: Tenuto) -> Iterator[Row]:
    """An image, when the catalog says that a model takes the work; otherwise why there is none."""
    models = [model for model in client.models.list() if model.kind == "image"]
    if not any(model.callable for model in models):
        reasons = [f"{model.id}: {model.callable_reason}" for model in models]
        console.print(f"image: no image model is callable here ({'; '.join(reasons) or 'none is installed'})")
        return
    began = time.monotonic()
    job = client.images.create(PROMPT, seed=7)
    console.print(f"{job.id}: {PROMPT}", markup=False)
    file = job.download(FOLDER / "image.png")
    yield row("image", job, began, str(file.relative_to(ROOT)))


KINDS: dict[str, Callable[[Tenuto], Iterator[Row]]] = {
    "speech": speak,
    "recognition": recognise,
    "chat": ask,
    "image": draw,
}
"""What can be shown, in this order."""


def row(kind: str, job: Job, began: float, result: str) -> Row:
    """The line of a job that has succeeded."""
    billing = job.operation.billing
    charged = billing.charged if billing else ""
    return Row(kind, job.id, time.monotonic() - began, charged, result)


def job_seconds(job: Job) -> float:
    """How long the result lasts."""
    return float((job.result or {}).get("duration_ms", 0)) / 1000


def start_afresh() -> None:
    """Remove what an earlier demo left; never under a service that still runs there."""
    lock = DATA / "serve.lock"
    if lock.exists():
        with lock.open() as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failed(f"{DATA} is in use by `tenuto serve` ({held.read().strip()}); stop it") from None
        shutil.rmtree(DATA)
    FOLDER.mkdir(exist_ok=True)
    for name in (*(f"{name}.wav" for name in TEXTS), "image.png"):
        (FOLDER / name).unlink(missing_ok=True)


def pull_weights(kinds: list[str]) -> None:
    """`tenuto models pull` shows its own progress, and takes no time when all is there."""
    needed = {kind for kind in kinds if kind in WEIGHTS} | ({"speech"} if "recognition" in kinds else set())
    names = [WEIGHTS[kind] for kind in WEIGHTS if kind in needed]
    if not names:
        return
    console.print(f"Weights of {', '.join(names)}", markup=False)
    pull = [TENUTO, "models", "pull", *names]
    done = subprocess.run(pull, env=environment(), stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failed("the weights could not be downloaded; what was tried is listed above")


@contextmanager
def running_service() -> Iterator[str]:
    """`tenuto serve` on a free port, stopped at the end; gives its address once it is ready."""
    with LOG.open("w") as log:
        serve = subprocess.Popen(
            [TENUTO, "serve", "--port", "0"], env=environment(), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert serve.stdout is not None
        first_line = serve.stdout.readline()
        address = re.search(r"http://[^,\s]+", first_line)
        if address is None:
            raise Failed(f"tenuto serve did not start:\n{LOG.read_text()}")
        wait_until_ready(address[0], serve)
        console.print(f"Service at {address[0]}")
        yield address[0]
    finally:
        serve.terminate()
        serve.communicate()


def wait_until_ready(url: str, serve: subprocess.Popen[str]) -> None:
    """`GET /readyz` answers 200 once jobs can be taken."""
    until = time.monotonic() + READY_S
    while True:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=10).close()
            return
        except OSError as error:
            if serve.poll() is not None or time.monotonic() > until:
                raise Failed(f"tenuto serve is not ready:\n{LOG.read_text()}") from error
            time.sleep(0.1)


def make_account_and_key() -> str:
    """With `--json` the operator's commands print what scripts can read."""
    operate("admin", "accounts", "create", "demo", "--credit", CREDIT)
    key: str = operate("admin", "keys", "create", "--account", "demo", "--name", "make demo")["key"]
    return key


def operate(*arguments: str) -> Any:
    """An operator's command on the demo's data folder."""
    command = [TENUTO, *arguments, "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout)


def show(rows: list[Row]) -> None:
    """The table of what was done, narrow enough for 80 columns with the ids whole; then the results."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("kind", "job"):
        table.add_column(heading, no_wrap=True)
    for heading in ("taken (s)", "charged (CNY)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in rows:
        table.add_row(one.kind, one.id, f"{one.taken_s:.1f}", one.charged)
    console.print()
    console.print(table)
    console.print(
        "\nTaken: from the request to the verified result; the first of a kind also loads its model."
    )
    for one in rows:
        console.print(f"{one.kind}: {one.result}", markup=False)


def show_how_to_go_on(key: str) -> None:
    """Lines to copy; the account and its jobs are kept in demo/data until the next `make demo`."""
    command = TENUTO.removeprefix(f"{ROOT}/")
    lines = f"""
Size, SHA-256 and media type of every file are as promised. Look and listen, then continue by hand
(the next `make demo` deletes {DATA.relative_to(ROOT)}: copy what you want to keep):

  {command} serve --data {DATA.relative_to(ROOT)}

and in another terminal:

  export TENUTO_BASE_URL=http://127.0.0.1:8080 TENUTO_API_KEY={key}
  {command} say "Good morning." -o demo/morning.wav
  {command} transcribe demo/morning.wav --lang en"""
    console.print(lines, markup=False)


def environment() -> dict[str, str]:
    """Ours without settings that were meant for another service; the cache of weights is shared."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    if cache := os.environ.get("TENUTO_CACHE"):
        own["TENUTO_CACHE"] = cache
    return own | {"TENUTO_DATA": str(DATA)}


if __name__ == "__main__":
    sys.exit(main())
