"""Speak a Chinese and an English text through Tenuto's HTTP API and verify the files: `make demo`.

An example to read and to copy from: everything that a client of the API does is here, with the standard
library alone (rich only draws the table). Start at `main`. All that it writes is under demo/.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "demo"
DATA = FOLDER / "data"
LOG = FOLDER / "service.log"
TENUTO = str(Path(sys.executable).with_name("tenuto"))

MODEL = "hexgrad/Kokoro-82M"
TEXTS = {
    "chinese": ("zh", "音符要唱足它的时值。这份工作一旦被接受，就不会丢失。"),
    "english": ("en", "Hold the note for its full value. A job that was accepted is never lost."),
}

READY_S = 60.0
REQUEST_S = 30.0
JOB_S = 300.0
TRIES = 5

console = Console(highlight=False, soft_wrap=True)


class Failed(Exception):
    """What went wrong, for the person at the terminal."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its headers (names in lower case) and its bytes."""

    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True)
class Client:
    """Where the service is, and the key that every request carries."""

    url: str
    key: str

    def request(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> Answer:
        """Send a request, and send it again when the answer is lost or says `Retry-After`.

        That is safe for reads, and for a submission too: its Idempotency-Key stays the same, so however often
        it arrives, it makes one job.
        """
        head = {"Authorization": f"Bearer {self.key}", **headers}
        if body is not None:
            head["Content-Type"] = "application/json"
        sent = None if body is None else json.dumps(body).encode()
        for remaining in reversed(range(TRIES)):
            try:
                request = urllib.request.Request(self.url + path, sent, head)
                with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                    names = {name.lower(): value for name, value in answer.headers.items()}
                    return Answer(names, answer.read())
            except urllib.error.HTTPError as error:
                wait_s = error.headers.get("Retry-After")
                if wait_s is None or not remaining:
                    said = error.read().decode("utf-8", "replace")
                    raise Failed(f"{path} answered {error.code}: {said}") from error
                time.sleep(float(wait_s))
            except (OSError, TimeoutError) as error:
                if not remaining:
                    raise Failed(f"{path} did not answer: {error}") from error
                time.sleep(1)
        raise AssertionError("the last try returns or raises")


def main() -> int:
    """Everything, one line a step; 0 when both files are there and verified."""
    try:
        start_afresh()
        pull_weights()
        with running_service() as url:
            client = Client(url, make_account_and_key())
            rows = [speak(client, name, lang, text) for name, (lang, text) in TEXTS.items()]
        show(rows)
        show_how_to_go_on(client.key)
    except Failed as error:
        console.print(f"\nmake demo failed: {error}", style="bold red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


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
    for name in TEXTS:
        (FOLDER / f"{name}.wav").unlink(missing_ok=True)


def pull_weights() -> None:
    """`tenuto models pull` shows its own progress, and takes no time when all is there."""
    console.print("Weights (130 MB the first time)")
    pull = [TENUTO, "models", "pull", MODEL]
    done = subprocess.run(pull, env=environment(), stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failed("the weights could not be had; what was tried is told above")


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
            urllib.request.urlopen(f"{url}/readyz", timeout=REQUEST_S).close()
            return
        except OSError as error:
            if serve.poll() is not None or time.monotonic() > until:
                raise Failed(f"tenuto serve is not ready:\n{LOG.read_text()}") from error
            time.sleep(0.1)


def make_account_and_key() -> str:
    """With `--json` the operator's commands print what scripts can read."""
    operate("accounts", "create", "demo")
    key: str = operate("keys", "create", "--account", "demo", "--name", "make demo")["key"]
    return key


def operate(*arguments: str) -> Any:
    """An operator's command on the demo's data folder."""
    command = [TENUTO, *arguments, "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout)


def speak(client: Client, name: str, lang: str, text: str) -> tuple[str, ...]:
    """One job from its text to its verified file; gives its row of the table."""
    began = time.monotonic()
    job = {"model": MODEL, "parameters": {"text": text, "lang": lang}}
    accepted = client.request("/v1/jobs", job, **{"Idempotency-Key": str(uuid.uuid4())}).json()
    console.print(f"{accepted['id']}: {text}", markup=False)
    operation = wait(client, accepted["id"])
    taken_s = time.monotonic() - began
    file = FOLDER / f"{name}.wav"
    file.write_bytes(download(client, operation["artifacts"][0]))
    audio_s = operation["result"]["duration_ms"] / 1000
    return (
        operation["id"],
        operation["state"],
        f"{audio_s:.1f}",
        f"{taken_s:.1f}",
        f"{taken_s / audio_s:.2f}",
        str(file.relative_to(ROOT)),
    )


def wait(client: Client, job_id: str) -> Any:
    """Look again as `Retry-After` says, while the job waits or runs; any other state ends the waiting."""
    until = time.monotonic() + JOB_S
    while True:
        answer = client.request(f"/v1/jobs/{job_id}")
        operation = answer.json()
        if operation["state"] == "succeeded":
            return operation
        if operation["state"] not in ("submitting", "queued", "running"):
            raise Failed(f"{job_id} is {operation['state']}: {operation['error']}")
        if time.monotonic() > until:
            raise Failed(f"{job_id} is still {operation['state']} after {JOB_S:.0f} s; the log is {LOG}")
        time.sleep(float(answer.headers["retry-after"]))


def download(client: Client, artifact: dict[str, Any]) -> bytes:
    """The bytes of an artifact, which must be those that the operation promised."""
    answer = client.request(f"/v1/artifacts/{artifact['id']}/content")
    promised = (artifact["media_type"], artifact["size_bytes"], artifact["sha256"])
    received = (
        answer.headers["content-type"],
        len(answer.content),
        hashlib.sha256(answer.content).hexdigest(),
    )
    if received != promised:
        raise Failed(f"{artifact['id']} should be {promised} and is {received}")
    return answer.content


def show(rows: list[tuple[str, ...]]) -> None:
    """The table of what was done, narrow enough for 80 columns with the ids whole."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("job", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for heading in ("audio\n(s)", "taken\n(s)", "real-time\nfactor"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("file", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)
    console.print("\nTaken: from the request to the result. The first job also loads the model.")


def show_how_to_go_on(key: str) -> None:
    """Lines to copy; the account and its jobs are kept in demo/data until the next `make demo`."""
    body = json.dumps({"model": MODEL, "parameters": {"text": "Good morning.", "lang": "en"}})
    command = TENUTO.removeprefix(f"{ROOT}/")
    lines = f"""
Size, SHA-256 and media type of both files are as promised. Listen to them, then go on by hand:

  {command} serve --data {DATA.relative_to(ROOT)}

and in another terminal:

  curl -H 'Authorization: Bearer {key}' -H 'Idempotency-Key: {uuid.uuid4()}' \\
       -H 'Content-Type: application/json' -d '{body}' http://127.0.0.1:8080/v1/jobs"""
    console.print(lines, markup=False)


def environment() -> dict[str, str]:
    """Ours without settings that were meant for another service; the cache of weights is shared."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    if cache := os.environ.get("TENUTO_CACHE"):
        own["TENUTO_CACHE"] = cache
    return own | {"TENUTO_DATA": str(DATA)}


if __name__ == "__main__":
    sys.exit(main())
