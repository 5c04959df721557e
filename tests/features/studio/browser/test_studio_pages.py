"""What each page of the studio does, with the fake engines: a voice from the microphone, the same picture
again, a key that ends, an account by invitation, problems that say what to do."""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, Route, expect
from playwright.sync_api import TimeoutError as NotInTime
from standardwebhooks import Webhook

from features.studio.browser.browser import BUILT, PASSWORD, Cookies, Person, person
from servers.receiver import Receiver, plainly
from servers.service import RunningService

FIRST_LOAD_BYTES = 90 * 1024
RATE = 16_000
HOSTILE = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>"
POLLED_MS = 30_000
"""A page that nobody informs has asked at least twice after that."""
JOIN = """async script => {
  window.news = []
  const worker = new SharedWorker(script, {type: 'module'})
  worker.port.onmessage = ({data}) => window.news.push(data)
  worker.port.postMessage({url: '', account: '', isWanted: false})
}"""
SHORT_TAKE = """() => new Promise(done => {
  const stop = () => {
    const button = document.querySelector('.recorder button.danger')
    if (!button) return requestAnimationFrame(stop)
    button.click()
    done()
  }
  document.querySelector('.recorder .row button').click()
  stop()
})"""
"""Records and stops as soon as may be: on a busy machine two clicks of a test are a second apart."""


@pytest.mark.variant("page")
def test_a_voice_comes_from_the_microphone(visitor: Person, member: Cookies) -> None:
    """A take that is too short is refused; a good one is heard, named, agreed to, renamed and deleted."""
    page = visitor.enter(member, "/voices")
    page.get_by_text("Record now").click()
    page.get_by_role("button", name="Record", exact=True).wait_for()
    page.evaluate(SHORT_TAKE)
    expect(page.get_by_text("Too short: at least 1 s.")).to_be_visible()
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(1\.[3-9]|[2-9]\.)"))
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Name", exact=True).fill("a hum")
    page.get_by_label("This is my own voice").check()
    page.get_by_role("button", name="Make the voice").click()
    page.get_by_text("The voice “a hum” has been created.").wait_for()
    [made] = [one for one in visitor.ask("GET", "/web/v1/voices")[1]["data"] if one["name"] == "a hum"]
    page.get_by_role("button", name="Rename a hum").click()
    page.get_by_role("textbox", name="Name").last.fill("一个长音")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete 一个长音").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(page.get_by_role("button", name="Rename 一个长音")).to_have_count(0)
    assert 1300 <= made["audio"]["duration_ms"] <= 15_000
    assert 1 == made["audio"]["channels"]


@pytest.mark.variant("page")
def test_a_job_is_found_by_its_text_and_erased(visitor: Person, member: Cookies) -> None:
    """Its title leads to its page, where nothing is left to press once it is erased; a line fits a phone."""
    page = visitor.enter(member, "/speech")
    page.get_by_label("The text to speak").fill("The amber beetle sleeps.")
    page.get_by_role("button", name="Generate").click()
    page.locator(".result .state.succeeded").wait_for()
    visitor.open("/jobs?q=nowhere+at+all")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_label("Search text").fill("AMBER  beetle")
    lines = page.locator(".lines.jobs li")
    expect(lines).to_have_count(1)
    page.set_viewport_size({"width": 390, "height": 844})
    width = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    lines.get_by_role("link", name="The amber beetle sleeps.").click()
    page.get_by_role("button", name="Erase the content").click()
    page.locator("dialog").get_by_role("button", name="Erase the content").click()
    expect(page.get_by_text("cannot be brought back")).to_be_visible()

    assert width <= 390
    expect(page.get_by_role("button", name="Erase the content")).to_have_count(0)
    expect(page.get_by_role("link", name="Use these settings again")).to_have_count(0)
    expect(page.locator("audio")).to_have_count(0)


@pytest.mark.variant("page")
def test_a_key_that_is_revoked_ends(visitor: Person, member: Cookies, fake_house: RunningService) -> None:
    """A key for some models only is refused at once when it is revoked, and stays in the list (R201)."""
    page = visitor.enter(member, "/keys")
    page.get_by_label("Name", exact=True).fill("short-lived")
    page.get_by_label("Only for some models").check()
    page.get_by_label("fake/image").check()
    page.get_by_role("button", name="Make the key").click()
    key = page.locator(".secret code").inner_text()
    with fake_house.client(key) as client:
        before = [model["id"] for model in client.get("/v1/models").json()["data"]]
        page.get_by_role("button", name="I have saved it").click()
        line = page.locator("tr", has_text="short-lived")
        line.get_by_role("button", name="New secret").click()
        page.get_by_label("The old secret works").select_option("0")
        page.get_by_role("dialog").get_by_role("button", name="New secret").click()
        page.get_by_role("heading", name="has a new secret").wait_for()
        rotated = client.get("/v1/models").status_code
        client.headers["Authorization"] = f"Bearer {page.locator('.secret code').inner_text()}"
        with_new = client.get("/v1/models").status_code
        line.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(line).to_contain_text("Revoked")
        after = client.get("/v1/models").status_code

    assert ["fake/image"] == before
    assert [401, 200, 401] == [rotated, with_new, after]


@pytest.mark.variant("page")
def test_an_operator_invites_and_pays_in(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """The link makes the account once, and says so afterwards."""
    with (
        person(browser, fake_house.url) as operator,
        person(browser, fake_house.url, language="zh") as guest,
    ):
        operator.enter(operator_cookie, "/operator/accounts")
        operator.page.get_by_label("Account name").fill("guest")
        operator.page.get_by_role("button", name="Create the account").dblclick()
        link = operator.page.locator(".secret code").inner_text()
        guest.open(link.removeprefix(fake_house.url))
        guest.page.get_by_label("密码").fill(PASSWORD)
        guest.page.get_by_role("button", name="设置密码并进入").click()
        guest.page.get_by_role("heading", name="guest").wait_for()
        operator.page.get_by_role("button", name="Close").click()
        operator.page.get_by_label("Search by name or id").fill("GUES")
        expect(operator.page.locator("tbody tr")).to_have_count(1)
        operator.page.get_by_role("button", name="Manage guest").click()
        expect(operator.page.get_by_text("For somebody who has forgotten the password")).to_be_visible()
        operator.page.get_by_label("Amount in yuan").fill("1.500001")
        operator.page.get_by_role("button", name="Add credit").dblclick()
        operator.page.get_by_text("¥1.500001 was added.").wait_for()
        operator.page.get_by_label("Amount in yuan").fill("1,5")
        expect(operator.page.get_by_text("was added.")).to_be_hidden()
        expect(operator.page.get_by_text("Enter an amount such as 12.5")).to_be_visible()
        operator.page.get_by_label("Amount in yuan").fill("999999999")
        operator.page.get_by_role("button", name="Add credit").click()
        expect(operator.page.get_by_text("at most 1000000000 CNY")).to_be_visible()
        operator.open("/usage")
        operator.page.get_by_role("link", name="Add credit, to your own account too").click()
        operator.page.get_by_role("heading", name="Accounts and credit").wait_for()
        guest.open("/usage")

        expect(guest.page.locator(".figures dd").first).to_have_text("¥21.500001")
        guest.ask("POST", "/web/logout")
        guest.open(link.removeprefix(fake_house.url))
        guest.page.get_by_label("密码").fill(PASSWORD)
        guest.page.get_by_role("button", name="设置密码并进入").click()
        expect(guest.page.get_by_text("这个链接已经失效")).to_be_visible()
        assert [] == operator.faults + guest.faults


@pytest.mark.variant("page")
def test_an_operator_switches_prices_and_tries_a_model(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """In the page, by keyboard too; each change is listed with who made it."""
    with person(browser, fake_house.url) as operator:
        operator.enter(operator_cookie, "/operator/models")
        card = operator.page.locator("li.card", has=operator.page.get_by_text("fake/image", exact=True)).first
        card.get_by_role("button", name="Switch off").press("Enter")
        card.get_by_text("Switched off", exact=True).wait_for()
        card.get_by_role("button", name="Switch on").press("Enter")
        card.get_by_text("Change the price").click()
        card.get_by_label("New price").fill("0.000009")
        card.get_by_label("New price").press("Enter")
        card.get_by_text("¥0.000009").wait_for()
        card.locator("summary", has_text="Try it").click()
        card.get_by_label("What to draw").press("Enter")
        card.locator("img").wait_for()
        card.get_by_role("button", name="Back to the settings file").click()
        expect(operator.page.locator("ul.lines li")).to_have_count(4)
        charged = operator.ask("GET", "/web/v1/jobs?kind=image&limit=1")[1]["data"][0]["billing"]["charged"]

        assert "0.000009" == charged
        assert [] == operator.faults


@pytest.mark.variant("page")
def test_recordings_of_other_kinds_are_read(visitor: Person, member: Cookies, tmp_path: Path) -> None:
    """A FLAC goes as it is, an Ogg file of two channels is mixed and made one, what is no sound is said."""
    visitor.become(member)
    page = visitor.page
    tone = (8000 * np.sin(np.arange(48_000) / 20)).astype(np.int16)
    soundfile.write(tmp_path / "as it is.flac", tone, 22_050)
    soundfile.write(tmp_path / "talk.ogg", np.column_stack([tone, tone]), 48_000)
    (tmp_path / "no sound.mp3").write_text("this is no sound")
    sent = []
    for name in ("as it is.flac", "talk.ogg"):
        visitor.open("/recognition")
        page.set_input_files("input[type=file]", tmp_path / name)
        page.get_by_role("button", name="Recognise").click()
        page.locator(".transcripts ol li").first.wait_for()
        sent.append(page.request.get(visitor.url + str(page.locator("audio").get_attribute("src"))).body())
    page.set_input_files("input[type=file]", tmp_path / "no sound.mp3")
    page.get_by_role("button", name="Recognise").click()
    decoded, rate = soundfile.read(io.BytesIO(sent[1]), dtype="int16", always_2d=True)

    expect(page.get_by_text("The browser cannot find audio in this file.")).to_be_visible()
    assert (tmp_path / "as it is.flac").read_bytes() == sent[0]
    assert (16_000, 1) == (rate, decoded.shape[1])
    # Browsers differ in whether they drop the padding of the last block: up to 1,024 frames at 48 kHz.
    assert abs(len(decoded) - 16_000) <= 342


@pytest.mark.variant("page")
def test_every_recording_is_sent_once(visitor: Person, tmp_path: Path) -> None:
    """A second click while the first is on its way sends nothing."""
    page = visitor.enter("sender", "/recognition")
    held = _hold(page, "**/web/v1/input-artifacts")
    go = page.get_by_role("button", name="Recognise", exact=True)
    page.set_input_files("input[type=file]", _recordings(tmp_path, "a.flac", "b.flac", "c.flac"))
    with page.expect_request("**/web/v1/input-artifacts"):
        go.click()
    expect(go).to_be_disabled()
    page.locator("form.panel").evaluate("form => form.requestSubmit()")
    page.set_input_files("input[type=file]", _recordings(tmp_path, "d.flac"))
    go.click()
    expect(page.get_by_text("Waiting until the recordings before it are sent")).to_have_count(3)
    page.get_by_role("region", name="c.flac").get_by_role("button", name="Cancel").click()
    held[0].continue_()
    for name in ("a.flac", "b.flac", "d.flac"):
        expect(page.get_by_role("region", name=name).locator(".transcripts ol li").first).to_be_visible()
    shown = page.locator("section.result h2").all_inner_texts()
    sent = _titles(visitor)
    _hold(page, "**/web/v1/input-artifacts")
    page.set_input_files("input[type=file]", _recordings(tmp_path, "e.flac", "f.flac"))
    with page.expect_request("**/web/v1/input-artifacts"):
        go.click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("link", name="Jobs").first.click()
    visitor.settle()

    assert ["a.flac", "b.flac", "d.flac"] == sent == sorted(shown)
    assert sent == _titles(visitor)


def _recordings(folder: Path, *names: str) -> list[Path]:
    """A second of a tone and half a second of silence, each a sample shorter than the one before."""
    tone = (8000 * np.sin(np.arange(RATE) / 20)).astype(np.int16)
    for number, name in enumerate(names):
        soundfile.write(
            folder / name, np.concatenate([tone[: RATE - number], np.zeros(8000, np.int16)]), RATE
        )
    return [folder / name for name in names]


def _hold(page: Page, path: str) -> list[Route]:
    """The page's next request of a path, once it is made; it does not go on by itself."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(path, hold, times=1)
    return held


def _titles(somebody: Person) -> list[str]:
    return sorted(job["title"] for job in somebody.ask("GET", "/web/v1/jobs?kind=recognition")[1]["data"])


@pytest.mark.variant("page")
@pytest.mark.parametrize("path", ["/", "/speech"])
def test_the_first_load_is_small(visitor: Person, member: Cookies, path: str) -> None:
    """90 KB at most, compressed, with all that a page needs; what draws waveforms comes with the first."""
    visitor.enter(member, path)
    visitor.settle()
    loaded = visitor.page.evaluate(
        """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
          .filter(one => one.name.includes('/assets/') || one.entryType === 'navigation')
          .map(one => [one.name, one.encodedBodySize])"""
    )
    total = sum(size for _, size in loaded)
    print(f"{path}: {total} bytes in {len(loaded)} files")

    assert 20_000 < total <= FIRST_LOAD_BYTES
    assert not [name for name, _ in loaded if "wavesurfer" in name]


@pytest.mark.variant("page")
def test_conversations_stay_in_this_browser_and_this_account(visitor: Person, member: Cookies) -> None:
    """They outlive a reload and a logout, are found, named, exported and deleted."""
    page = visitor.page
    visitor.register("talker")
    talker = page.context.cookies()
    visitor.open("/chat")
    _say(visitor, "Hold the note.")
    _say(visitor, "Hold it longer.")
    page.reload()
    expect(page.locator(".turn")).to_have_count(4)
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("textbox", name="Name").fill("Notes")
    page.keyboard.press("Enter")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Markdown").click()
    text = Path(saved.value.path()).read_text("utf-8")
    visitor.open("/usage")
    line = page.get_by_role("region", name="Usage").get_by_role("row", name="Chat")
    expect(line.get_by_role("cell").nth(1)).to_have_text("2")
    page.context.clear_cookies()
    visitor.enter(member, "/chat")
    expect(page.get_by_text("None yet.")).to_be_visible()
    visitor.enter(talker, "/")
    page.get_by_role("link", name="Notes").click()
    expect(page.locator(".turn")).to_have_count(4)
    page.keyboard.press("/")
    page.keyboard.type("longer")
    expect(page.get_by_role("link", name="Notes")).to_be_visible()
    page.get_by_role("button", name="Delete Notes").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="Notes").click()
    expect(page.locator(".turn")).to_have_count(4)
    page.get_by_label("Keep conversations in this browser").uncheck()
    page.reload()

    expect(page.get_by_text("None yet.")).to_be_visible()
    assert text.startswith("# Notes\n")
    assert text.count("Hold it longer.") == 2


@pytest.mark.variant("page")
def test_two_tabs_lose_no_turn_of_a_conversation(visitor: Person) -> None:
    """What the other tab has added is taken over before a message, and stays if it comes during an answer."""
    visitor.register("two-tabs")
    first = visitor.page
    visitor.open("/chat")
    _say(visitor, "One.")
    second = first.context.new_page()
    second.goto(first.url)
    expect(second.locator(".turn")).to_have_count(2)
    _send(second, "Two.")
    expect(second.locator(".turn.assistant footer")).to_have_count(2)
    with first.expect_request("**/web/v1/chat/completions") as request:
        _send(first, "Three.")
    expect(first.locator(".turn.assistant footer")).to_have_count(3)
    sent = json.loads(request.value.post_data or "")
    asked = [turn["content"] for turn in sent["messages"] if turn["role"] == "user"]
    held = _hold(first, "**/web/v1/chat/completions")
    with first.expect_request("**/web/v1/chat/completions"):
        _send(first, "Four.")
    _send(second, "Five.")
    expect(second.locator(".turn.assistant footer")).to_have_count(4)
    held[0].continue_()
    expect(first.locator(".turn.assistant footer")).to_have_count(5)
    second.get_by_role("button", name="Edit").first.click()
    second.get_by_role("textbox", name="Edit").fill("Another.")
    second.get_by_role("textbox", name="Edit").press("Enter")
    expect(second.get_by_label("Message")).to_have_value("Another.")
    expect(second.get_by_text("continued in another tab")).to_be_visible()
    first.reload()
    expect(first.locator(".turn.assistant footer")).to_have_count(5)

    assert ["One.", "Two.", "Three."] == asked
    said = first.locator(".turn.user .words").all_inner_texts()
    assert ["One.", "Two.", "Three.", "Four.", "Five."] == said
    assert said == second.locator(".turn.user .words").all_inner_texts()


def _send(page: Page, words: str) -> None:
    page.get_by_label("Message").fill(words)
    page.get_by_label("Message").press("Enter")


def _say(somebody: Person, words: str) -> None:
    """A message and its whole answer."""
    answers = somebody.page.locator(".turn.assistant footer")
    before = answers.count()
    _send(somebody.page, words)
    expect(answers).to_have_count(before + 1)


@pytest.mark.variant("page")
def test_many_jobs_are_saved_and_erased_at_once(visitor: Person, member: Cookies) -> None:
    """By keyboard: the archive has each result under its title, byte for byte."""
    page = visitor.enter(member, "/jobs")
    ids = [visitor.submit("fake/image", {"prompt": f"many {n}"}, chapter="many") for n in range(3)]
    assert {"succeeded"} == {visitor.finish(one) for one in ids}
    visitor.open("/jobs?label=chapter%3Dmany")
    boxes = page.get_by_role("checkbox", name=re.compile("^Choose: many"))
    expect(boxes).to_have_count(3)
    page.get_by_label("Select all shown").press("Space")
    expect(page.get_by_text("Selected: 3")).to_be_visible()
    boxes.first.press("Space")
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download", exact=True).press("Enter")
    with zipfile.ZipFile(io.BytesIO(Path(archive.value.path()).read_bytes())) as files:
        faults = files.testzip()
        saved = {name: files.read(name) for name in files.namelist()}
    jobs = [visitor.ask("GET", f"/web/v1/jobs/{one}")[1] for one in ids]
    contents = [
        page.request.get(f"{visitor.url}/web/v1/artifacts/{job['artifacts'][0]['id']}/content").body()
        for job in jobs[:2]
    ]
    refused = {"error": {"code": "job_not_finished", "message": "Not now.", "request_id": "req_1"}}
    page.route(f"**/jobs/{ids[0]}/content", lambda route: route.fulfill(status=409, json=refused), times=1)
    page.get_by_role("button", name="Erase the content").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Erase the content").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not now.")
    expect(page.locator(".lines.jobs .erased")).to_have_count(1)
    page.get_by_label("Kind").select_option("speech")
    page.get_by_label("Kind").select_option("")
    expect(boxes).to_have_count(2)
    expect(page.get_by_text("Selected:")).to_have_count(0)
    states = [visitor.ask("GET", f"/web/v1/jobs/{one}")[1]["erased_at"] is not None for one in ids]

    assert faults is None
    assert {f"many {n} {ids[n][-8:]}.png": contents[n] for n in range(2)} == saved
    assert [False, True, False] == states


@pytest.mark.variant("page")
def test_recognition_is_tried_with_an_example(visitor: Person, member: Cookies) -> None:
    """A recording that speaks the reader's language, by keyboard alone and without a file."""
    page = visitor.enter(member, "/recognition")
    page.get_by_role("button", name="Try it with an example").press("Enter")
    expect(page.get_by_role("button", name="Recognise")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator(".transcripts ol li").first.wait_for()
    [job] = visitor.ask("GET", "/web/v1/jobs?kind=recognition&limit=1")[1]["data"]
    voices = visitor.ask("GET", "/web/v1/voices")[1]["data"]
    english = next(one for one in voices if one["kind"] == "official" and "en" in one["languages"])

    assert f"Example {english['name']}.wav" == job["title"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server that takes everything."""
    made = Receiver()
    yield made
    made.close()


@pytest.mark.variant("page")
def test_a_webhook_from_its_making_to_its_end(visitor: Person, member: Cookies, receiver: Receiver) -> None:
    """By keyboard: its secret is shown once and verifies what arrives; what was refused is resent."""
    page = visitor.enter(member, "/keys")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.get_by_label("Address").press_sequentially("ftp://a.example")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("url")
    page.get_by_label("Address").fill(receiver.url)
    page.get_by_label("a job was cancelled").press("Space")
    page.get_by_role("button", name="Make the webhook").press("Enter")
    secret = page.locator(".secret code").inner_text()
    page.locator(".secret").get_by_role("button", name="Copy").press("Enter")
    expect(page.locator(".secret").get_by_role("button")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="I have saved it").press("Enter")
    receiver.answering = plainly(503)
    page.get_by_role("button", name="Send a test").press("Enter")
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text("503")
    receiver.answering = plainly(204)
    rows.first.get_by_role("button", name="Send again").press("Enter")
    expect(rows.first.locator(".state")).to_have_text("delivered")
    first, *_, last = receiver.wait(2)
    shown = visitor.ask("GET", "/web/v1/webhooks")[1]["data"][0]
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_text("Paused: nothing is sent")).to_be_visible()
    page.get_by_role("button", name="Enable").press("Enter")
    page.get_by_role("button", name="New secret").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="New secret").press("Enter")
    page.locator(".secret code").wait_for()
    rotated = page.locator(".secret code").inner_text()
    page.get_by_role("button", name="Delete").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
    expect(page.get_by_text("No webhooks yet")).to_be_visible()

    for message in (first, last):
        Webhook(secret).verify(message.body, message.headers)
    assert "webhook.test" == json.loads(first.body)["type"]
    assert first.id == last.id and secret == copied != rotated
    assert ["job.succeeded", "job.failed"] == shown["events"]
    assert secret not in page.content() and rotated not in page.content()
    assert [] == visitor.ask("GET", "/web/v1/webhooks")[1]["data"]


@pytest.mark.variant("page")
def test_a_job_from_elsewhere_appears_without_a_poll(visitor: Person, fake_house: RunningService) -> None:
    """While nothing happens the list asks for nothing, however long; then it asks for what is new."""
    page, polls = visitor.page, list[str]()
    page.clock.install()
    visitor.enter("elsewhere", "/jobs")
    # What the worker of all tabs says is in `window.news`.
    [script] = BUILT.parent.glob("assets/changes.worker-*.js")
    page.evaluate(JOIN, f"/assets/{script.name}")
    page.wait_for_function("() => window.news.at(-1)?.isUp === true")
    page.clock.run_for(2000)
    page.on("request", lambda one: polls.append(one.url) if "/web/v1/jobs?" in one.url else None)
    page.clock.run_for(POLLED_MS)
    quiet = len(polls)
    key = fake_house.make_key("elsewhere")
    asked = {"model": "fake/speech", "parameters": {"text": "From elsewhere."}}
    with fake_house.client(key) as client:
        client.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "one"})
    expect(page.locator(".lines.jobs > li")).to_contain_text("From elsewhere.")
    expect(page.locator(".lines.jobs .state")).to_have_text("Succeeded")

    assert 0 == quiet
    assert 1 <= len(polls) <= 6


def test_what_people_write_is_never_markup(visitor: Person, member: Cookies) -> None:
    """Names and texts of any kind are shown as they are: nothing of them runs (R206)."""
    visitor.enter(member, "/keys")
    visitor.ask("POST", "/web/keys", {"name": HOSTILE[:80], "models": None, "expires_at": None})
    visitor.open("/keys")
    expect(visitor.page.locator("tbody td").first).to_have_text(HOSTILE[:80])
    visitor.open("/speech")
    visitor.page.get_by_label("The text to speak").fill(HOSTILE)
    visitor.page.get_by_role("button", name="Generate").click()
    visitor.page.locator(".result .state.succeeded").wait_for()
    visitor.page.get_by_role("link", name="Open its page").click()
    expect(visitor.page.locator("pre code")).to_contain_text("onerror")

    assert "stolen" != visitor.page.title()
    assert 0 == visitor.page.locator("img[src=x]").count()


def test_an_address_cannot_lead_astray(visitor: Person) -> None:
    """After logging in one is at a page of the studio, whatever the address asked for."""
    visitor.register("astray")
    visitor.ask("POST", "/web/logout")
    for wanted in (
        "//example.org/",
        "https://example.org/",
        "/\\example.org",
        "javascript:document.title='stolen'",
    ):
        visitor.open(f"/login?next={wanted}")
        visitor.page.get_by_label("Account name").fill("astray")
        visitor.page.get_by_label("Password").fill("a password for tests")
        visitor.page.get_by_role("button", name="Log in").click()
        visitor.page.get_by_role("heading", name="Hello, astray").wait_for()

        assert visitor.page.url.startswith(visitor.url)
        visitor.ask("POST", "/web/logout")


@pytest.mark.variant("page")
def test_a_session_that_ended_asks_for_the_password_and_comes_back(visitor: Person) -> None:
    """Nothing of the account stays on the page."""
    visitor.enter("tired", "/speech")
    visitor.page.get_by_label("The text to speak").fill("Hold this.")
    visitor.ask("POST", "/web/logout")
    with suppress(NotInTime):  # The page asks now and then, and may find out before.
        visitor.page.get_by_role("link", name="Jobs", exact=True).click(timeout=3_000)
    visitor.page.get_by_text("Your session has expired.").wait_for()
    [place] = parse_qs(urlsplit(visitor.page.url).query)["next"]
    visitor.page.get_by_label("Account name").fill("tired")
    visitor.page.get_by_label("Password").fill("a password for tests")
    visitor.page.get_by_role("button", name="Log in").click()

    expect(visitor.page).to_have_url(f"{visitor.url}{place}")
    visitor.page.get_by_role("link", name="Speech", exact=True).click()
    assert place in ("/jobs", "/speech")
    expect(visitor.page.get_by_label("The text to speak")).to_have_value("Hold this.")
    visitor.page.reload()
    expect(visitor.page.get_by_label("The text to speak")).to_have_value("Hold this.")


def test_what_a_model_writes_is_never_markup(visitor: Person, member: Cookies) -> None:
    """Its Markdown and formulas are shown."""
    page = visitor.enter(member, "/chat")
    good, bad = "[good](https://example.org/)", "[bad](javascript:document.title='stolen')"
    picture = "![picture](https://example.org/p.png)"
    page.get_by_label("Message").fill(f"**loud** $x^2$ {good} {bad} {picture} {HOSTILE}")
    # Until the page knows the models, Enter does nothing and the button is disabled.
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Message").press("Enter")
    words = page.locator(".turn.assistant .words")
    expect(page.locator(".turn.assistant footer")).to_be_visible()
    expect(words.locator("strong")).to_have_text("loud")
    expect(words.locator("math")).to_be_visible()
    links = words.locator("a").evaluate_all("links => links.map(one => [one.href, one.rel, one.target])")

    assert [
        ["https://example.org/", "noopener noreferrer nofollow", "_blank"],
        ["https://example.org/p.png", "noopener noreferrer nofollow", "_blank"],
    ] == links
    assert "stolen" != page.title()
    assert 0 == words.locator("img, script").count()
    expect(words).to_contain_text("<img src=x onerror=")
