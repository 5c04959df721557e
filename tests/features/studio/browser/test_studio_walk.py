"""A person's way through the studio with the real engines: from an account to sound, text and the ledger."""

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, expect

from features.studio.browser.browser import PASSWORD, Person, person
from features.studio.browser.tap import Samples, heard, tap
from servers.service import RunningService

SAID = "Hold the note for its full value. The quick brown fox jumps over the lazy dog. " * 2
JOB_MS = 150_000

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(420)]


def test_a_person_speaks_hears_reads_and_pays(
    browser: Browser, real_house: RunningService, tmp_path: Path
) -> None:
    """Register, make a key that works, speak and hear every sample, lend a voice, read a recording, draw,
    chat, and find all of it in the ledger (R184, R201, R206)."""
    with person(browser, real_house.url, bypass_csp=True) as somebody:
        tap(somebody.page)
        _register(somebody, "walker")
        _make_a_key(somebody, tmp_path)
        spoken = _speak(somebody)
        _lend_a_voice(somebody, spoken, tmp_path)
        _read(somebody, spoken, tmp_path)
        _draw(somebody)
        _chat(somebody)
        _find_the_money(somebody)

    assert [] == somebody.faults


def _register(somebody: Person, name: str) -> None:
    somebody.open("/")
    page = somebody.page
    page.get_by_role("link", name="Make an account").click()
    page.get_by_label("Account name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make the account").click()

    expect(page.get_by_role("heading", name=f"Hello, {name}")).to_be_visible()


def _make_a_key(somebody: Person, folder: Path) -> None:
    """The Python that is shown runs as it stands, and the key is in no list afterwards."""
    page = somebody.page
    page.get_by_role("link", name="API keys").click()
    page.get_by_label("Name", exact=True).fill("walk")
    page.get_by_role("button", name="Make the key").click()
    key = page.locator(".secret code").inner_text()
    assert f"TENUTO_API_KEY='{key}'" in page.locator("pre").inner_text()
    page.get_by_role("button", name="Python").click()
    script = page.locator("pre").inner_text()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=JOB_MS / 1000
    )
    page.get_by_role("button", name="I have saved it").click()
    page.get_by_role("link", name="Jobs", exact=True).click()

    assert (0, "") == (done.returncode, done.stderr)
    assert soundfile.info(folder / "speech.wav").samplerate == 24_000
    expect(page.locator("ul.jobs > li")).to_have_count(1)
    assert key not in page.content() + page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")


def _speak(somebody: Person) -> Samples:
    """What sounds while the job runs is the result, sample for sample and without a gap."""
    page = somebody.page
    somebody.open("/speech")
    page.get_by_label("The text to speak").fill(SAID)
    page.get_by_label("Language", exact=True).nth(0).select_option("en")
    page.get_by_role("button", name="Generate").click()
    page.locator(".result .state.succeeded").wait_for(timeout=JOB_MS)
    page.locator(".live").wait_for(state="detached", timeout=JOB_MS)
    sound = heard(page)
    link = page.locator(".waveform a[download]").get_attribute("href")
    artifact, rate = soundfile.read(
        io.BytesIO(page.request.get(f"{somebody.url}{link}").body()), dtype="int16"
    )
    expect(page.get_by_label("Position")).to_have_attribute("aria-valuemax", re.compile(r"^\d+\.\d+$"))
    print(
        f"{len(sound.begun)} segments; first sound {sound.first_sound_ms:.0f} ms after the last empty listing"
    )

    assert rate == sound.rate
    assert 2 <= len(sound.begun)
    assert np.array_equal(artifact, np.concatenate([sound.of(segment) for segment in sound.begun]))
    for one, other in zip(sound.begun, sound.begun[1:], strict=False):
        is_late = other.now > one.frame + one.length
        assert is_late or other.frame == one.frame + one.length
    assert sound.first_sound_ms <= 1500
    samples: Samples = artifact
    return samples


def _lend_a_voice(somebody: Person, spoken: Samples, folder: Path) -> None:
    """A recording becomes a voice once its owner agrees, and can be chosen."""
    path = folder / "my voice.wav"
    soundfile.write(path, spoken[: 24_000 * 5], 24_000)
    page = somebody.page
    page.get_by_role("link", name="Voices", exact=True).click()
    page.set_input_files("input[type=file]", path)
    expect(page.get_by_label("Name", exact=True)).to_have_value("my voice")
    make = page.get_by_role("button", name="Make the voice")
    expect(make).to_be_disabled()
    page.get_by_label("This is my own voice").check()
    make.click()
    page.get_by_text("The voice “my voice” has been created.").wait_for()
    page.get_by_role("link", name="Speech", exact=True).click()
    page.get_by_role("radio", name="my voice").check()
    page.get_by_text("Remember this choice").click()
    page.get_by_label("Content account").fill("channel")
    page.get_by_role("button", name="Remember this voice").click()

    page.get_by_text("Remembered for “channel”.").wait_for()
    assert "channel" == somebody.ask("GET", "/web/v1/voice-preference")[1]["data"][0]["content_account"]


def _read(somebody: Person, spoken: Samples, folder: Path) -> None:
    """A WAV is made FLAC here without losing a sample, and both engines hear what was said."""
    path = folder / "talk.wav"
    mono = spoken[: len(spoken) // 3 * 3].reshape(-1, 3).mean(axis=1).astype(np.int16)
    heard_at = np.interp(np.arange(0, len(mono), 0.5), np.arange(len(mono)), mono).astype(np.int16)
    soundfile.write(path, heard_at, 16_000)
    page = somebody.page
    page.get_by_role("link", name="Recognition", exact=True).click()
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Language", exact=True).nth(0).select_option("en")
    page.get_by_role("button", name="Recognise").click()
    page.locator(".transcripts ol li").first.wait_for(timeout=JOB_MS)
    columns = [page.locator(f".transcripts .side{side} .words") for side in (0, 1)]
    texts = [" ".join(column.all_inner_texts()).lower() for column in columns]
    uploaded = page.locator(".listening audio").get_attribute("src")
    flac = page.request.get(f"{somebody.url}{uploaded}").body()
    samples, rate = soundfile.read(io.BytesIO(flac), dtype="int16")
    with page.expect_download() as saved:
        page.get_by_role("button", name="SRT").first.click()
    subtitles = Path(saved.value.path()).read_text("utf-8")

    assert b"fLaC" == flac[:4]
    assert 16_000 == rate
    assert np.array_equal(heard_at, samples)
    assert all("quick brown fox" in text for text in texts)
    assert subtitles.startswith("1\n00:00:0")


def _draw(somebody: Person) -> None:
    """A picture of the size that the model makes is there to be seen."""
    page = somebody.page
    page.get_by_role("link", name="Images", exact=True).click()
    page.get_by_label("Prompt", exact=True).fill("a red circle above a blue square")
    page.get_by_role("button", name="Draw", exact=True).click()
    page.locator("img.drawn").wait_for(timeout=JOB_MS)
    page.wait_for_function("document.querySelector('img.drawn').complete")

    assert 0 < page.evaluate("document.querySelector('img.drawn').naturalWidth")


def _chat(somebody: Person) -> None:
    """The answer comes in pieces, and its usage with it."""
    page = somebody.page
    page.get_by_role("link", name="Chat", exact=True).click()
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Max tokens").fill("12")
    page.get_by_text("This is a tiny demo model (0.5B, made for code).").wait_for()
    page.get_by_label("Message").fill("Say hello.")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Message").press("Enter")
    page.get_by_text(re.compile(r"\d+ prompt \+ \d+ answer tokens")).wait_for(timeout=JOB_MS)

    assert page.locator(".turn.assistant .words").inner_text().strip()


def _find_the_money(somebody: Person) -> None:
    """What was charged is the same on the page, in the CSV and by the API."""
    page = somebody.page
    page.get_by_role("link", name="Usage and ledger").click()
    page.locator("tfoot").wait_for()
    charged = page.locator("tfoot td").last.inner_text()
    csv = page.request.get(f"{somebody.url}/web/ledger.csv").text()
    _, entries = somebody.ask("GET", "/web/v1/account/ledger?limit=100")
    _, balance = somebody.ask("GET", "/web/v1/account/balance")

    settled = sum(float(entry["amount"]) for entry in entries["data"] if entry["type"] == "settle")
    assert settled > 0
    assert f"{settled:.6f}".rstrip("0") == charged.lstrip("¥").rstrip("0")
    assert f"{20 - settled:.6f}" == balance["total"]
    assert len(entries["data"]) + 1 == len(csv.strip().splitlines())
