"""The speech page in a browser: the language of a text, what cannot be spoken, drafts, long texts, parts."""

import base64
import hashlib
import io
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, Route, expect

from features.studio.browser.browser import PASSWORD, Cookies, Person, person
from servers.service import RunningService

MAX_BYTES = 8192
FORMS: dict[str, Literal["button", "link"]] = {
    "MP3": "button",
    "Opus": "button",
    "FLAC": "button",
    "WAV": "link",
}
LEFT = """([account, ids]) => localStorage.setItem(
  `tenuto.draft.${account}.long`, JSON.stringify({model: 'fake/speech', ids}))"""
"""What a page that was left before a long text was done has stored."""
LONG = "() => Object.keys(localStorage).filter(place => place.endsWith('.long')).length"
DRAFT = "page => Object.keys(localStorage).filter(place => place.startsWith('tenuto.draft.')).length"


@pytest.mark.variant("page")
def test_a_draft_outlives_the_page_and_the_session(browser: Browser, fake_house: RunningService) -> None:
    """A reload and a new log-in find it; another account does not; it is gone when its owner says so."""
    with person(browser, fake_house.url) as somebody:
        page = somebody.enter("drafter", "/speech")
        page.get_by_label("The text to speak").fill("Hold this thought.")
        somebody.open("/speech")
        expect(page.get_by_label("The text to speak")).to_have_value("Hold this thought.")
        somebody.ask("POST", "/web/logout")
        somebody.enter("someone-else", "/speech")
        expect(page.get_by_label("The text to speak")).to_have_value("")
        somebody.ask("POST", "/web/logout")
        somebody.ask("POST", "/web/login", {"name": "drafter", "password": PASSWORD})
        somebody.open("/speech")
        expect(page.get_by_label("The text to speak")).to_have_value("Hold this thought.")
        kept = page.evaluate(DRAFT)
        page.get_by_label("Keep my drafts in this browser").uncheck()
        gone = page.evaluate(DRAFT)
        page.get_by_label("The text to speak").fill("Not this one.")
        somebody.open("/speech")
        expect(page.get_by_label("The text to speak")).to_have_value("")
        expect(page.get_by_label("Keep my drafts in this browser")).not_to_be_checked()

    assert (1, 0) == (kept, gone)
    assert [] == somebody.faults


@pytest.mark.variant("page")
def test_a_long_text_is_made_in_pieces_and_joined(visitor: Person, member: Cookies) -> None:
    """Several jobs with one label, each of whole sentences; the file is their results, sample for sample."""
    page = visitor.enter(member, "/speech")
    # Letters of four bytes, spoken fast: few to speak for so long a text.
    sentence = "𠮷" * 20 + "。"
    text = "[fake:sleep=3] " + sentence * (MAX_BYTES // len(sentence.encode()) + 5)
    page.get_by_label("Speed").fill("2")
    page.get_by_label("The text to speak").fill(text)
    expect(page.get_by_text("it is made as several jobs and joined into one file")).to_be_visible()
    page.get_by_role("button", name="Generate", exact=True).click()
    page.locator(".result .progress li a").nth(1).wait_for(state="attached")
    visitor.open("/speech")
    page.get_by_text("2 of 2 parts are ready").wait_for(timeout=120_000)
    page.locator(".waveform .round:not([disabled])").wait_for()
    whole, rate = soundfile.read(io.BytesIO(_saved(page)["WAV"]), dtype="int16")
    jobs = visitor.ask("GET", "/web/v1/jobs?kind=speech&limit=2")[1]["data"][::-1]
    asked = [visitor.ask("GET", f"/web/v1/jobs/{job['id']}/request")[1] for job in jobs]
    pieces = [
        page.request.get(f"{visitor.url}/web/v1/artifacts/{job['artifacts'][0]['id']}/content").body()
        for job in jobs
    ]

    assert [job["artifacts"][0]["sha256"] for job in jobs] == [
        hashlib.sha256(one).hexdigest() for one in pieces
    ]
    assert text == "".join(one["parameters"]["text"] for one in asked)
    assert all(one["parameters"]["text"].endswith("。") for one in asked)
    assert [("1", "2"), ("2", "2")] == [(job["metadata"]["piece"], job["metadata"]["pieces"]) for job in jobs]
    assert 1 == len({job["metadata"]["group"] for job in jobs})
    read = [soundfile.read(io.BytesIO(one), dtype="int16") for one in pieces]
    assert rate == read[0][1]
    assert np.array_equal(whole, np.concatenate([samples for samples, _ in read]))


@pytest.mark.variant("page")
def test_parts_that_have_ended_are_made_again_only_if_somebody_asks(visitor: Person) -> None:
    """P10. Two pages that are opened submit nothing."""
    visitor.register("asker")
    page = visitor.page
    texts = ["[fake:raise] One.", "[fake:sleep=2] Two.", "Three.", "Four.", "Five."]
    ids = [
        visitor.submit("fake/speech", {"text": text}, group="parts", piece=str(number), pieces="5")
        for number, text in enumerate(texts, 1)
    ]
    visitor.ask("POST", f"/web/v1/jobs/{ids[1]}/cancel")
    states = dict(zip(ids[2:], ("succeeded", "recovery_required", "suspended"), strict=True))
    for one, state in zip(ids, ("failed", "cancelled", *["succeeded"] * 3), strict=True):
        assert state == visitor.finish(one)

    def change(route: Route) -> None:
        answer = route.fetch()
        job = answer.json()
        if state := states.get(job["id"]):
            job |= {"state": state}
        route.fulfill(response=answer, json=job)

    for one in ids:
        page.context.route(f"**/web/v1/jobs/{one}", change)
    page.evaluate(LEFT, [_account(visitor), ids])
    second = page.context.new_page()
    for tab in (second, page):
        tab.goto(f"{visitor.url}/speech")
    for tab in (second, page):
        expect(tab.locator(".result [role=alert]")).to_contain_text("4 parts did not succeed")
    untouched = _parts(visitor)
    page.wait_for_function(f"({LONG})() === 0")
    page.get_by_role("button", name="Try these parts again").click()
    expect(page.locator(".result [role=alert]")).to_contain_text("3 parts did not succeed")

    assert ["1", "2", "3", "4", "5"] == untouched
    assert ["1", "1", "2", "2", "3", "4", "5"] == _parts(visitor)


@pytest.mark.variant("page")
def test_cancelling_a_long_text_stops_the_parts_that_are_on_their_way(visitor: Person) -> None:
    """Of its parts, one is accepted, one is on its way and one is not submitted yet."""
    page = visitor.enter("canceller", "/speech")
    page.get_by_label("Speed").fill("2")
    wait, sentence = "[fake:sleep=30] ", "𠮷" * 20 + "。"
    part = wait + sentence * ((MAX_BYTES - len(wait)) // len(sentence.encode()))
    page.get_by_label("The text to speak").fill(part * 3)
    held: list[Route] = []
    page.route(
        "**/web/v1/jobs",
        lambda route: (
            held.append(route)
            if route.request.method == "POST" and '"piece":"2"' in (route.request.post_data or "")
            else route.continue_()
        ),
    )
    with page.expect_request(lambda request: '"piece":"2"' in (request.post_data or "")):
        page.get_by_role("button", name="Generate", exact=True).click()
    with page.expect_response("**/cancel"):
        page.get_by_role("button", name="Cancel all parts").click()
    held[0].continue_()
    expect(page.locator(".result [role=alert]")).to_contain_text("3 parts did not succeed")
    jobs = visitor.ask("GET", "/web/v1/jobs?kind=speech")[1]["data"]

    assert {"1": "cancelled", "2": "cancelled"} == {job["metadata"]["piece"]: job["state"] for job in jobs}
    assert 2 == len(jobs)


def _account(somebody: Person) -> str:
    return str(somebody.ask("GET", "/web/session")[1]["account"]["id"])


def _parts(somebody: Person) -> list[str]:
    """Which part of a text each job of speech is."""
    jobs = somebody.ask("GET", "/web/v1/jobs?kind=speech&limit=100")[1]["data"]
    return sorted(job["metadata"]["piece"] for job in jobs)


@pytest.mark.variant("page")
def test_a_sound_is_saved_in_every_form(visitor: Person, member: Cookies) -> None:
    """Below the form and on the job's page: MP3 and Opus last as long as the WAV, FLAC has its samples."""
    page = visitor.enter(member, "/speech")
    page.get_by_label("The text to speak").fill("Hold the note. " * 4)
    page.keyboard.press("Control+Enter")
    page.locator(".waveform .round:not([disabled])").wait_for()
    [job] = visitor.ask("GET", "/web/v1/jobs?kind=speech&limit=1")[1]["data"]
    below = _saved(page)
    busy = {"error": {"code": "rate_limit_exceeded", "message": "later", "request_id": "req_1"}}
    page.route("**/rendition?*", lambda route: route.fulfill(status=429, json=busy), times=1)
    visitor.open(f"/jobs/{job['id']}")
    page.locator(".waveform .round:not([disabled])").wait_for()
    with page.expect_download() as again:
        page.get_by_role("button", name="Download MP3").press("Enter")
    own = _saved(page)
    samples, rate = soundfile.read(io.BytesIO(own["WAV"]), dtype="int16")
    lossless, _ = soundfile.read(io.BytesIO(own["FLAC"]), dtype="int16")
    lengths = [soundfile.info(io.BytesIO(own[form])).duration for form in ("MP3", "Opus")]
    gone = {"error": {"code": "not_found", "message": "It is gone.", "request_id": "req_1"}}
    page.route("**/rendition?*", lambda route: route.fulfill(status=404, json=gone))
    page.get_by_role("button", name="Download Opus").click()

    expect(page.get_by_role("alert")).to_contain_text("There is no such thing.")
    assert again.value.suggested_filename.endswith(f"{job['id'][-8:]}.mp3")
    assert {form: below[form] for form in ("WAV", "FLAC", "MP3")} == {
        form: own[form] for form in ("WAV", "FLAC", "MP3")
    }
    assert np.array_equal(samples, lossless)
    assert all(abs(length - len(samples) / rate) < 0.2 for length in lengths)


def _saved(page: Page) -> dict[str, bytes]:
    """The open page's sound as each of the forms that are offered."""
    saved = {}
    for form, role in FORMS.items():
        with page.expect_download() as download:
            page.get_by_role(role, name=f"Download {form}").click()
        saved[form] = Path(download.value.path()).read_bytes()
    return saved


@pytest.mark.variant("page")
def test_a_recording_is_cut_checked_and_heard_beside_its_voice(
    visitor: Person, member: Cookies, tmp_path: Path
) -> None:
    """A dropped file is too long: a part is checked, made louder and sent; then both are heard."""
    rate = 16_000
    times = np.arange(20 * rate) / rate
    words = np.where(times % 1 < 0.5, 0.02 * np.sin(times * 1500), 0)
    soundfile.write(tmp_path / "long talk.wav", (words * 32768).astype(np.int16), rate)
    page = visitor.enter(member, "/voices")
    data = page.evaluate_handle(
        """bytes => {
          const data = new DataTransfer()
          data.items.add(new File([Uint8Array.from(atob(bytes), c => c.charCodeAt(0))], 'long talk.wav'))
          return data
        }""",
        base64.b64encode((tmp_path / "long talk.wav").read_bytes()).decode(),
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": data})
    expect(page.get_by_text("It is 20.0 s long; a voice takes 1 to 15 s.")).to_be_visible()
    page.get_by_label("This is my own voice").check()
    expect(page.get_by_role("button", name="Make the voice")).to_be_disabled()
    page.get_by_role("button", name="Select a part").click()
    page.get_by_label("To (s)").fill("4")
    page.get_by_label("To (s)").press("Tab")
    expect(page.locator("div.check li.good")).to_have_count(4)
    expect(page.locator("div.check li.poor")).to_contain_text("Quiet: speech at -37 dBFS.")
    page.get_by_label("Adjust the loudness").check()
    page.get_by_role("button", name="Make the voice").click()
    page.get_by_text("The voice “long talk” has been created.").wait_for()
    page.get_by_role("button", name="Make a sample").click()
    page.get_by_role("button", name="Listen to A sample of the voice").wait_for()
    [made] = [one for one in visitor.ask("GET", "/web/v1/voices")[1]["data"] if one["name"] == "long talk"]
    path = f"/web/v1/voices/{made['voice_id']}/content"
    sent, sent_rate = soundfile.read(io.BytesIO(page.request.get(visitor.url + path).body()))
    job = visitor.ask("GET", "/web/v1/jobs?kind=speech&limit=1")[1]["data"][0]["id"]
    asked = visitor.ask("GET", f"/web/v1/jobs/{job}/request")[1]["parameters"]

    assert (4 * rate, rate) == (len(sent), sent_rate)
    assert 0.13 < np.abs(sent).max() < 0.16
    assert made["voice_id"] == asked["voice_id"]
