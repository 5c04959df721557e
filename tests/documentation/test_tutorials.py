"""Every tutorial is done as it stands, in each language: its blocks in order, with real models."""

import json
import os
import shlex
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree, ignore_patterns

import httpx2
import obstore
import pytest

from documentation.test_site import DOCS, ROOT, blocks
from servers.postgres import PostgresServer
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer
from servers.service import PLAIN, TENUTO, RunningService
from tenuto.features.s3.s3_client import Credentials, S3Location, client

ADDRESS = "http://127.0.0.1:8080"
"""The service of the pages; that of a test has a free port."""


@dataclass
class Reader:
    """Somebody with a checkout in which `make serve` runs."""

    language: str
    service: RunningService
    folder: Path
    home: Path
    replaced: dict[str, str] = field(default_factory=dict)
    """Addresses of the pages, and what stands in for them here."""

    @property
    def environment(self) -> dict[str, str]:
        """That of a user who set nothing but, perhaps, where weights are."""
        environment = {
            name: value
            for name, value in self.service.environment.items()
            if not name.startswith("TENUTO_") or name == "TENUTO_CACHE"
        }
        # Weights are many, and everybody's.
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        path = f"{Path(TENUTO).parent}:{os.environ['PATH']}"
        return environment | {"HOME": str(self.home), "XDG_CACHE_HOME": cache, "PATH": path}

    def do(self, page: str, plain: Callable[[str], None] | None = None) -> str:
        """Run each block of a page, and return what they printed; `plain` does those in no language."""
        printed = ""
        for language, text in blocks(DOCS / "tutorials" / self.language / page):
            if language == "":
                assert plain is not None, text
                plain(self._replaced(text))
                continue
            command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
            printed += self.run([*command, self._replaced(text)])
        return printed

    def run(self, command: list[str], text: str | None = None) -> str:
        """What a command prints in the reader's folder; it must succeed."""
        done = subprocess.run(
            command,
            input=text,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert 0 == done.returncode, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def jobs(self) -> int:
        """How many jobs the reader's account has."""
        return len(json.loads(self.run(["tenuto", "jobs", "list", "--limit", "100", "--json"])))

    def _replaced(self, text: str) -> str:
        for shown, real in {ADDRESS: self.service.url, **self.replaced}.items():
            text = text.replace(shown, real)
        return text


@pytest.fixture(scope="module", params=["en", pytest.param("zh", marks=pytest.mark.variant("language"))])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """One service for the tutorials of a language, and somebody who is logged in."""
    reader = _reader(request.param, tmp_path_factory.mktemp(request.param))
    yield reader
    reader.service.stop()


def _reader(language: str, folder: Path) -> Reader:
    (folder / "checkout").mkdir()
    (folder / "home").mkdir()
    (folder / "checkout" / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    service = RunningService(folder / "checkout" / "tenuto-data", engines="real")
    service.start()
    reader = Reader(language, service, folder / "checkout", folder / "home")
    reader.run(["tenuto", "login", service.url], text=service.make_key("reader", credit="1000"))
    return reader


@pytest.mark.variant("page")
@pytest.mark.real_engine
def test_the_first_job_can_be_done_as_it_stands(reader: Reader) -> None:
    """Three sounds and a text: four jobs, for the interrupted command made only one."""
    printed = reader.do("first-job.md")
    jobs = json.loads(reader.run(["tenuto", "jobs", "list", "--json"]))

    assert 4 == len(jobs), printed
    assert {"succeeded"} == {job["state"] for job in jobs}
    for name in ("note.wav", "long.wav", "python.wav"):
        assert (reader.folder / name).stat().st_size > 20_000
    assert ("interrupt" if reader.language == "en" else "打断") in printed


@pytest.mark.variant("page")
@pytest.mark.real_engine
def test_a_podcast_can_be_made_as_it_stands(reader: Reader) -> None:
    """All lines in one file, with pauses; the program run again makes no further job."""
    before = reader.jobs()
    reader.do("podcast.md")
    once = reader.jobs()
    reader.do("podcast.md")
    with wave.open(str(reader.folder / "podcast.wav")) as podcast:
        length_s = podcast.getnframes() / podcast.getframerate()
    spoken_s = 0.0
    for number in range(3):
        with wave.open(str(reader.folder / f"line-{number}.wav")) as line:
            spoken_s += line.getnframes() / line.getframerate()

    assert before + 3 == once == reader.jobs()
    assert abs(length_s - (spoken_s + 3 * 0.4)) < 0.01


@pytest.mark.variant("page")
@pytest.mark.real_engine
def test_a_folder_is_transcribed_as_it_stands(reader: Reader) -> None:
    """Subtitles and a text for each recording, with half of the words or characters that were said."""
    reader.do("transcribe-a-folder.md")
    folder = reader.folder / "recordings"
    english = (["first", "recording", "short"], ["second", "not", "much", "longer"])
    spoken = english if reader.language == "en" else (list("第一段录音很短"), list("第二段也长不了多少"))

    for name, words in zip(("one", "two"), spoken, strict=True):
        text = (folder / f"{name}.txt").read_text("utf-8").lower()
        assert " --> " in (folder / f"{name}.srt").read_text("utf-8")
        assert sum(word in text for word in words) >= len(words) / 2, text


@pytest.mark.variant("page")
@pytest.mark.real_engine
def test_an_own_model_is_added_as_it_stands(tmp_path: Path) -> None:
    """In English; the code in Chinese is the same. The engine passes the suite, and its model speaks."""
    reader = _reader("en", tmp_path)
    # Copies, because pip builds in the folder that it is given.
    for name in ("examples/engine", "packages/tenuto-engine"):
        copytree(ROOT / name, reader.folder / name, ignore=ignore_patterns("__pycache__", "build"))

    def serve_again(text: str) -> None:
        assert "TENUTO_CONFIG=$PWD/tenuto.toml make serve" == text.strip()
        reader.service.stop()
        reader.service.variables = {"TENUTO_CONFIG": str(reader.folder / "tenuto.toml")}
        reader.service.start()

    try:
        printed = reader.do("own-model.md", plain=serve_again)
    finally:
        reader.service.stop()

    assert "example/morse" in printed
    with wave.open(str(reader.folder / "morse.wav")) as sound:
        assert (16_000, 1) == (sound.getframerate(), sound.getnchannels())


@pytest.mark.variant("page")
@pytest.mark.real_engine
def test_one_machine_becomes_three_as_it_stands(
    tmp_path: Path, postgres_server: PostgresServer, seaweed: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In English; the code in Chinese is the same. On PostgreSQL and S3, with an API and two workers; the
    reader's key and jobs have come along.
    """
    reader = _reader("en", tmp_path)
    address, key = reader.service.url, reader.service.make_key("reader")
    reader.run(["tenuto", "say", "Before.", "-o", "before.wav"])
    reader.service.stop()
    postgres_server.run("create database tutorial")
    reader.replaced = {
        "postgresql://tenuto@database.example.com/tenuto": postgres_server.url("tutorial"),
        "https://s3.example.com": seaweed.endpoint,
        "--port 8080": f"--port {reader.service.port}",
    }
    credentials = Credentials(ACCESS_KEY, SECRET_KEY)
    bucket = S3Location(bucket="tenuto", prefix="made", endpoint=seaweed.endpoint, credentials=credentials)
    # The bucket is made by the first object in it.
    obstore.put(client(bucket), "made", b"")
    for name, value in seaweed.variables.items():
        monkeypatch.setenv(name, value)
    processes: list[subprocess.Popen[bytes]] = []

    def start(text: str) -> None:
        for line in text.strip().splitlines():
            with (tmp_path / "log").open("ab") as log:
                processes.append(
                    subprocess.Popen(
                        shlex.split(line), cwd=reader.folder, env=reader.environment, stdout=log, stderr=log
                    )
                )
        until = time.monotonic() + 60
        while "tenuto worker" in text and not _is_callable(address, "hexgrad/Kokoro-82M", key):
            assert time.monotonic() < until, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.05)

    try:
        printed = reader.do("three-machines.md", plain=start)
        jobs = reader.jobs()
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(60) for process in processes]

    assert ([0, 0, 0], 2) == (codes, jobs), printed
    assert (reader.folder / "three.wav").stat().st_size > 20_000
    assert not (reader.folder / "tenuto-data").exists()


def _is_callable(address: str, model: str, key: str) -> bool:
    """Whether the API answers, and a worker runs the model."""
    headers = {"Authorization": f"Bearer {key}"}
    try:
        listed = httpx2.get(f"{address}/v1/models", headers=headers, timeout=120, verify=PLAIN).json()["data"]
    except httpx2.HTTPError:
        return False
    return any(one["id"] == model and one["callable"] for one in listed)
