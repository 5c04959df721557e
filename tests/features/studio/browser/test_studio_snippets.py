"""Copied code runs as it stands: everything that a job's page, and a form that is filled in, offers."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page

from features.studio.browser.browser import Cookies, Person
from servers.service import RunningService

RUNS_S = 120
TEXT = 'It\'s "held" — $HOME, `date`, 100 %\\n 你好'
RUNNERS = {
    "curl": ["sh", "-c"],
    "tenuto": ["sh", "-c"],
    "Python": [sys.executable, "-c"],
    "openai-python": [sys.executable, "-c"],
    "JavaScript": ["node", "--input-type=module", "--eval"],
}
JOB = ["JavaScript", "Python", "curl", "tenuto"]


@pytest.fixture
def environment(fake_house: RunningService, tmp_path: Path) -> dict[str, str]:
    """A key in the variable that the snippets name; what the commands keep is the test's own."""
    own = {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    key = fake_house.make_key("coder", credit="100")
    return {**os.environ, **own, "PATH": path, "TENUTO_API_KEY": key}


@pytest.mark.variant("page")
def test_code_of_a_speech_job_speaks_the_same(
    visitor: Person, member: Cookies, environment: dict[str, str], tmp_path: Path
) -> None:
    """The text is hard to quote; the result of each is the artifact of the job, byte for byte."""
    visitor.enter(member, "/jobs")
    job_id = visitor.submit("fake/speech", {"text": TEXT, "lang": "en", "use_random": True})
    visitor.open(f"/jobs/{job_id}")
    visitor.page.locator(".state.succeeded").wait_for()
    [artifact] = visitor.ask("GET", f"/web/v1/jobs/{job_id}")[1]["artifacts"]
    spoken = visitor.page.request.get(f"{visitor.url}/web/v1/artifacts/{artifact['id']}/content").body()
    made = _results(_snippets(visitor.page), environment, tmp_path, "speech.wav")

    assert dict.fromkeys([*JOB, "openai-python"], spoken) == made


@pytest.mark.variant("page")
def test_code_transcribes_a_recording_of_the_disk(
    visitor: Person, member: Cookies, environment: dict[str, str], tmp_path: Path
) -> None:
    """The form's code sends the file that was chosen there; OpenAI's package prints the words."""
    tone = (8000 * np.sin(np.arange(32_000) / 20)).astype(np.int16)
    soundfile.write(tmp_path / "two words.flac", tone, 16_000)
    visitor.enter(member, "/recognition")
    visitor.page.set_input_files("input[type=file]", tmp_path / "two words.flac")
    codes = _snippets(visitor.page)
    printed = _run_all({"openai-python": codes.pop("openai-python")}, environment, tmp_path)
    made = _results(codes, environment, tmp_path, "transcript.json")
    said = json.loads(made["curl"])["engines"]["segment_text"]["segments"]

    assert JOB == sorted(made)
    assert " ".join(one["text"] for one in said if one["text"]) == printed["openai-python"].strip()
    assert [True] == list({b'"segment_text"' in content for content in made.values()})


@pytest.mark.variant("page")
def test_code_of_a_chat_asks_the_same(
    visitor: Person, member: Cookies, environment: dict[str, str], tmp_path: Path
) -> None:
    """What is written in the field is the question; the fake model repeats it."""
    visitor.enter(member, "/chat")
    visitor.page.get_by_label("Message", exact=True).fill(TEXT)
    answers = _run_all(_snippets(visitor.page), environment, tmp_path)
    written = json.loads(answers.pop("curl"))["choices"][0]["message"]["content"]

    assert TEXT.split() == written.split()
    assert dict.fromkeys(["JavaScript", "Python", "openai-python", "tenuto"], written.strip()) == {
        name: answer.strip() for name, answer in answers.items()
    }


def _snippets(page: Page) -> dict[str, str]:
    """What the open page offers, by the names of its buttons; the last one is chosen then."""
    page.locator("details.snippets > summary").click()
    buttons = page.locator("details.snippets .tabs button[aria-pressed]")
    buttons.first.wait_for()
    codes = {}
    for button in buttons.all():
        button.click()
        codes[button.inner_text()] = page.locator("details.snippets pre").inner_text()
    return codes


def _results(
    codes: Mapping[str, str], environment: dict[str, str], folder: Path, file: str
) -> dict[str, bytes]:
    """The file that each leaves."""
    _run_all(codes, environment, folder)
    return {name: (folder / name / file).read_bytes() for name in codes}


def _run_all(codes: Mapping[str, str], environment: dict[str, str], folder: Path) -> dict[str, str]:
    """What each prints, run in a folder of its own to which the recordings of `folder` are linked."""

    def run(name: str) -> str:
        own = folder / name
        own.mkdir()
        for recording in folder.glob("*.flac"):
            (own / recording.name).symlink_to(recording)
        done = subprocess.run(
            [*RUNNERS[name], codes[name]],
            cwd=own,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUNS_S,
        )
        assert 0 == done.returncode, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout

    with ThreadPoolExecutor() as pool:
        return dict(zip(codes, pool.map(run, codes), strict=True))
