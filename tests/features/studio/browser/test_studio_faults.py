"""When not all is well: a lost attempt, a cancel, an unknown outcome, no HTTPS."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Dialog, Page, Route, expect

from features.studio.browser.browser import LAN_NAME, PASSWORD, Cookies, Person, person
from features.studio.browser.tap import heard, tap
from servers.service import RunningService

THREE_SEGMENTS = "Sixty letters make three segments when the fake one speaks them"
FIRST_FRAMES = 20 * 1440
"""Of an attempt's first segment alone: all others begin with silence, which makes them longer."""
JOB_MS = 90_000
TRIES = 4
"""How often a page sends a request before it gives up."""


@pytest.mark.variant("page")
def test_a_lost_attempt_leaves_no_sound_behind(
    browser: Browser, fake_house: RunningService, member: Cookies
) -> None:
    """When an attempt is lost its queue is dropped; the next one is heard alone, from its beginning."""
    with person(browser, fake_house.url, bypass_csp=True) as somebody:
        tap(somebody.page)
        somebody.become(member)
        job_id = _say(somebody, f"[fake:crash_late] [fake:slow_segments=0.2] {THREE_SEGMENTS}")
        somebody.page.locator(".result .state.failed").wait_for(timeout=JOB_MS)
        shown = somebody.page.locator(".result .problem").inner_text()
        somebody.page.locator(".live").wait_for(state="detached", timeout=JOB_MS)
        sound = heard(somebody.page)
        path = f"/web/v1/jobs/{job_id}/audio-segments"
        segment_id = somebody.ask("GET", path)[1]["data"][0]["segment_id"]
        content = somebody.page.request.get(f"{somebody.url}{path}/{segment_id}/content").body()

    begins = [i for i, segment in enumerate(sound.begun) if segment.length == FIRST_FRAMES]
    last, again = sound.begun[begins[-1] - 1], sound.begun[begins[-1]]

    assert 2 <= len(begins)
    assert again.frame < last.frame + last.length
    assert np.array_equal(soundfile.read(io.BytesIO(content), dtype="int16")[0], sound.of(again))
    assert "The engine crashed repeatedly on this job." in shown
    assert "The amount held was released." in shown
    assert [] == somebody.faults


@pytest.mark.variant("page")
def test_a_picture_is_drawn_once_however_often_its_answer_is_lost(visitor: Person) -> None:
    """R19. Drawn again, also after the page was loaded again, it has the same seed and so the same key."""
    page = visitor.enter("drawer", "/images")
    page.get_by_label("Prompt").fill("a cat")
    for after in (lambda: None, page.reload):
        with _lost_answers(page, "/v1/jobs"):
            page.get_by_role("button", name="Draw", exact=True).click()
            page.locator("form .problem").wait_for()
        after()
    page.get_by_role("button", name="Draw", exact=True).click()
    page.locator(".result .state.succeeded").wait_for(timeout=JOB_MS)
    once = visitor.ask("GET", "/web/v1/jobs")[1]["data"]
    with page.expect_response("**/v1/jobs"):
        page.get_by_role("button", name="Draw", exact=True).click()
    twice = visitor.ask("GET", "/web/v1/jobs")[1]["data"]

    assert [1, 2] == [len(once), len(twice)]


@pytest.mark.variant("page")
def test_a_recording_is_read_once_however_often_its_answer_is_lost(visitor: Person, tmp_path: Path) -> None:
    """R19. It is not uploaded again either, also where the file is chosen again after a reload."""
    soundfile.write(tmp_path / "tone.wav", np.full(24_000 * 2, 1000, np.int16), 24_000)
    visitor.register("listener")
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    visitor.open("/recognition")
    with _lost_answers(page, "/v1/jobs"):
        page.set_input_files("input[type=file]", tmp_path / "tone.wav")
        page.get_by_role("button", name="Recognise").click()
        page.locator(".result .problem").wait_for()
    page.reload()
    page.set_input_files("input[type=file]", tmp_path / "tone.wav")
    page.get_by_role("button", name="Recognise").click()
    page.locator(".transcripts ol li").first.wait_for(timeout=JOB_MS)

    assert 1 == len(visitor.ask("GET", "/web/v1/jobs")[1]["data"])
    assert 1 == len([url for url in asked if url.endswith("/input-artifacts")])


def test_a_long_text_is_completed_after_a_lost_answer(visitor: Person) -> None:
    """R19. The part that was accepted and the one whose answer was lost are not made a second time."""
    page = visitor.enter("teller", "/speech")
    page.get_by_label("Speed").fill("2")
    page.get_by_label("The text to speak").fill(("𠮷" * 20 + "。") * 250)
    with _lost_answers(page, "/v1/jobs", with_text='"piece":"2"'):
        page.get_by_role("button", name="Generate", exact=True).click()
        page.locator("form .problem").first.wait_for()
    page.get_by_role("button", name="Generate", exact=True).click()
    page.get_by_text("3 of 3 parts are ready").wait_for(timeout=JOB_MS)
    parts = [job["metadata"]["piece"] for job in visitor.ask("GET", "/web/v1/jobs")[1]["data"]]

    assert ["1", "2", "3"] == sorted(parts)


@pytest.mark.variant("page")
def test_a_page_that_still_sends_a_recording_asks_before_it_is_left(visitor: Person, tmp_path: Path) -> None:
    """By a link, by the browser's own step back, or by loading it again: each would end the upload unseen."""
    soundfile.write(tmp_path / "tone.wav", np.full(24_000 * 2, 1000, np.int16), 24_000)
    page = visitor.enter("sender", "/jobs")
    page.get_by_role("link", name="Recognition", exact=True).click()
    held: list[Route] = []
    asked: list[tuple[str, str]] = []

    def hold(route: Route) -> None:
        held.append(route)

    def stay(dialog: Dialog) -> None:
        asked.append((dialog.type, dialog.message))
        dialog.dismiss()

    page.route("**/input-artifacts", hold)
    page.on("dialog", stay)
    page.set_input_files("input[type=file]", tmp_path / "tone.wav")
    with page.expect_request("**/input-artifacts"):
        page.get_by_role("button", name="Recognise").click()
    page.get_by_role("link", name="API keys").click()
    page.evaluate("history.back()")
    with page.expect_event("dialog"):
        page.evaluate("setTimeout(() => location.reload())")
    held[0].continue_()
    page.locator(".transcripts ol li").first.wait_for(timeout=JOB_MS)
    address = page.url
    page.get_by_role("link", name="API keys").click()
    page.wait_for_url("**/keys")

    assert ["confirm", "confirm", "beforeunload"] == [kind for kind, _ in asked]
    assert "Some recordings have not been sent yet" in asked[0][1]
    assert f"{visitor.url}/recognition" == address


@pytest.mark.variant("page")
def test_an_operator_decides_what_nobody_else_may(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """An unknown outcome waits in the inbox with its evidence; giving it up releases the hold."""
    with person(browser, fake_house.url) as operator:
        operator.become(operator_cookie)
        job_id = _say(operator, f"[fake:unknown] {THREE_SEGMENTS}", model="fake/metered-speech")
        operator.page.get_by_text("The operator has to decide about this job.").wait_for(timeout=JOB_MS)
        operator.page.get_by_role("link", name="Recovery inbox").click()
        operator.page.get_by_role("link", name=job_id).click()
        expect(operator.page.locator("pre")).to_contain_text("recovery_required")
        operator.page.get_by_label("Note").fill("the provider says that nothing was made")
        operator.page.get_by_role("button", name="Give up").click()
        operator.page.get_by_role("dialog").get_by_role("button", name="Give up").click()
        expect(operator.page.get_by_text("Nothing waits for a decision")).to_be_visible()
        ended = operator.ask("GET", f"/web/v1/jobs/{job_id}")[1]

    assert ("failed", "0.000000") == (ended["state"], ended["billing"]["charged"])
    assert [] == operator.faults


@pytest.mark.variant("page")
def test_a_credit_is_booked_once_however_often_its_answer_is_lost(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """Also after the panel was closed, and after the page was loaded again; the next one is a new one."""
    with person(browser, fake_house.url) as operator:
        page = operator.enter(operator_cookie, "/operator")
        account = operator.ask("POST", "/web/operator/accounts", {"name": "payer"})[1]["id"]

        def add() -> None:
            page.get_by_role("button", name="Manage payer").click()
            page.get_by_label("Amount in yuan").fill("5")
            page.get_by_role("button", name="Add credit").click()

        def close() -> None:
            page.get_by_role("button", name="Close").click()

        operator.open("/operator/accounts")
        for after in (close, page.reload):
            with _lost_answers(page, f"/{account}/credit"):
                add()
                page.locator(".panel .problem").wait_for()
            after()
        balances = []
        for after in (close, lambda: None):
            add()
            page.get_by_text("was added.").wait_for()
            balances.append(operator.ask("GET", "/web/operator/accounts?search=payer")[1]["data"][0])
            after()

    assert [25_000_000, 30_000_000] == [line["available_micros"] for line in balances]


@pytest.mark.variant("page")
def test_over_plain_http_all_works_but_the_microphone(
    browser: Browser, fake_house: RunningService, member: Cookies, tmp_path: Path
) -> None:
    """Without HTTPS a text is spoken, a recording made FLAC and read, a voice uploaded, a key copied."""
    soundfile.write(tmp_path / "tone.wav", np.full(24_000 * 2, 1000, np.int16), 24_000)
    with person(browser, fake_house.url.replace("127.0.0.1", LAN_NAME)) as somebody:
        page = somebody.page
        somebody.open("/login")
        is_secure = page.evaluate("window.isSecureContext")
        page.get_by_label("Account name").fill("member")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Hello, member").wait_for()
        _say(somebody, "Over the air.")
        page.locator(".waveform .round:not([disabled])").wait_for()
        somebody.open("/recognition")
        page.set_input_files("input[type=file]", tmp_path / "tone.wav")
        page.get_by_role("button", name="Recognise").click()
        page.locator(".transcripts ol li").first.wait_for()
        somebody.open("/voices")
        page.get_by_text("Record now").click()
        expect(page.get_by_text("Browsers allow the microphone only on pages over HTTPS")).to_be_visible()
        page.get_by_text("Upload a file", exact=True).click()
        page.set_input_files("input[type=file]", tmp_path / "tone.wav")
        page.get_by_label("This is my own voice").check()
        page.get_by_role("button", name="Make the voice").click()
        page.get_by_text("The voice “tone” has been created.").wait_for()
        somebody.open("/keys")
        page.get_by_label("Name", exact=True).fill("lan")
        page.get_by_role("button", name="Make the key").click()
        page.locator(".secret button").click()
        expect(page.locator(".secret button")).to_have_text("Copied")

    # Browsers say, of every page, that this one header means nothing without HTTPS.
    assert [] == [fault for fault in somebody.faults if "Cross-Origin-Opener-Policy" not in fault]
    assert not is_secure


@contextmanager
def _lost_answers(page: Page, path: str, *, with_text: str = "") -> Iterator[None]:
    """The service gets what is posted to a path, and its answers are lost, until the page gives up."""
    lost: list[int] = []

    def lose(route: Route) -> None:
        if route.request.method != "POST" or with_text not in (route.request.post_data or ""):
            route.continue_()
            return
        lost.append(route.fetch().status)
        route.abort()

    page.route(f"**{path}", lose)
    yield
    page.unroute(f"**{path}", lose)

    assert TRIES == len(lost)


def _say(somebody: Person, text: str, *, model: str = "fake/speech") -> str:
    """Submit a text at the speech page; gives the job's id."""
    somebody.open("/speech")
    page = somebody.page
    page.get_by_label("Model").select_option(model)
    page.get_by_label("The text to speak").fill(text)
    page.get_by_role("button", name="Generate").click()
    address = page.get_by_role("link", name="Open its page").get_attribute("href")
    assert address is not None
    return address.removeprefix("/jobs/")
