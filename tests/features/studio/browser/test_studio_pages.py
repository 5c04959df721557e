"""What each page of the studio does, with the fake engines: a voice from the microphone, the same picture
again, a key that ends, an account by invitation, problems that say what to do."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Page, Route, expect

from features.studio.browser.browser import PASSWORD, Cookies, Person, person
from servers.service import RunningService

FIRST_LOAD_BYTES = 90 * 1024
LONG_S = 12 * 60
"""Two parts."""
RATE = 16_000
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
def test_a_picture_says_what_was_asked_and_what_was_not_drawn(visitor: Person, member: Cookies) -> None:
    """Prompt and warnings stand by the picture on every page; variations have other, short seeds."""
    page = visitor.enter(member, "/images")
    prompt = "[fake:warn] a prompt that is rather longer than the sixty characters of a title"
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_role("button", name="Draw", exact=True).click()
    page.locator(".result .state.succeeded").wait_for()
    page.get_by_role("button", name="3 variations").click()
    expect(page.locator(".result img")).to_have_count(4)
    warnings = page.locator(".result .note").all_inner_texts()
    expect(page.locator(".gallery img").first).to_have_attribute("alt", prompt)
    jobs = visitor.ask("GET", "/web/v1/jobs?kind=image&limit=4")[1]["data"]
    page.locator(".gallery a").first.click()
    expect(page.locator("figure img")).to_have_attribute("alt", prompt)
    expect(page.locator("figure .asked")).to_have_text(prompt)
    expect(page.locator("figure .note")).to_have_text("the fake engine was told to warn")

    assert ["the fake engine was told to warn"] * 4 == warnings
    seeds = {job["artifacts"][0]["metadata"]["seed"] for job in jobs}
    assert 4 == len(seeds)
    assert all(seed < 1_000_000 for seed in seeds)


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


def test_who_lacks_credit_reads_what_is_needed_and_the_operator_gets_a_button(
    visitor: Person, operator_cookie: Cookies, member: Cookies
) -> None:
    """What is needed, what is there and who can add it, once."""
    body: dict[str, object] = {
        "message": "said by the service", "type": "permission_error", "code": "insufficient_balance",
        "param": None, "details": [], "request_id": "req_1",
        "balance": {"needed": "6.000000", "available": "0.050000", "currency": "CNY"},
    }  # fmt: skip
    page = visitor.page
    page.route("**/web/v1/jobs", lambda route: route.fulfill(status=403, json={"error": body}))
    told = []
    for cookie in (operator_cookie, member):
        visitor.enter(cookie, "/images")
        page.get_by_label("Prompt").fill("a red circle")
        page.get_by_role("button", name="Draw").click()
        told.append(page.get_by_role("alert").inner_text().replace("\n", " "))
        adds = page.get_by_role("alert").get_by_role("link", name="Add credit")
        expect(adds).to_have_count(1 if cookie is operator_cookie else 0)

    assert all(text.startswith("This needs ¥6.00, and ¥0.05 is available.") for text in told)
    assert "The operator of this service can add credit." in told[1] and "operator" not in told[0]
    assert not [text for text in told if "said by the service" in text]


@pytest.mark.variant("page")
def test_a_service_that_is_away_is_said_and_nothing_is_lost(visitor: Person, member: Cookies) -> None:
    """What was written stays, and sending it again works when the service is back."""
    page = visitor.enter(member, "/chat")
    page.get_by_label("Message").fill("Are you there?")
    page.context.set_offline(True)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    expect(page.get_by_label("Message")).to_have_value("Are you there?")
    page.context.set_offline(False)
    page.get_by_role("button", name="Send").click()

    page.locator(".turn.assistant footer").wait_for()


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
def test_several_recordings_keep_their_names_and_are_taken_up_again(
    visitor: Person, member: Cookies, tmp_path: Path
) -> None:
    """Each has its own result under its name; a stored one is recognised again without being sent again."""
    names = ["morning.flac", "一次会议.flac"]
    files = _recordings(tmp_path, *names)
    page = visitor.enter(member, "/recognition")
    page.set_input_files("input[type=file]", files)
    page.get_by_role("button", name="Recognise").press("Enter")
    results = [page.get_by_role("region", name=name) for name in names]
    for result in results:
        expect(result.locator(".transcripts ol li").first).to_be_visible()
        expect(result.get_by_text("both transcripts have the same words")).to_be_visible()
        expect(result.get_by_text("fake/word-timestamps · English")).to_be_visible()
    with page.expect_download() as saved:
        results[1].get_by_role("button", name="VTT").first.click()
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    results[0].get_by_role("button", name="Again with other settings").click()
    # Its settings are read first, and would replace those that are chosen before.
    expect(page.get_by_role("button", name="Recognise", exact=True)).to_be_enabled()
    page.locator("#language").select_option("ja")
    page.get_by_role("button", name="Recognise").click()
    expect(page.get_by_text("fake/word-timestamps · Japanese")).to_be_visible()
    jobs = visitor.ask("GET", "/web/v1/jobs?kind=recognition&limit=3")[1]["data"]

    assert "一次会议.segment_text.vtt" == saved.value.suggested_filename
    assert [f"{visitor.url}/web/v1/jobs"] == sent
    assert jobs[0]["input_artifact_ids"] == jobs[2]["input_artifact_ids"] != jobs[1]["input_artifact_ids"]


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
def test_a_recording_of_several_parts_says_how_far_it_is(
    visitor: Person, member: Cookies, tmp_path: Path
) -> None:
    """While one part is done and another is not the page tells the seconds; the end has the words of both."""
    visitor.become(member)
    page = visitor.page
    samples = np.zeros(LONG_S * RATE, np.int16)
    # Of one value: the fake engine waits here, half a second and then three.
    for start_s, wait in ((30, 1105), (LONG_S - 30, 1130)):
        samples[start_s * RATE : (start_s + 1) * RATE] = np.arange(RATE) % 997 + 1
        samples[(start_s + 2) * RATE : (start_s + 3) * RATE] = wait
    soundfile.write(tmp_path / "long.flac", samples, RATE)
    visitor.open("/recognition")
    page.set_input_files("input[type=file]", tmp_path / "long.flac")
    page.get_by_role("button", name="Recognise").click()
    status = page.locator(".result [role=status]")
    expect(status).to_have_text(re.compile(rf"^[1-9]\d* of {LONG_S} seconds transcribed"), timeout=30_000)
    said = status.inner_text()
    value = status.locator("progress").get_attribute("value")
    page.locator(".transcripts ol li").first.wait_for()
    shown = page.locator(".transcripts").inner_text()
    [job] = visitor.ask("GET", "/web/v1/jobs?kind=recognition&limit=1")[1]["data"]
    transcript = visitor.ask("GET", f"/web/v1/artifacts/{job['artifacts'][0]['id']}/content")[1]

    assert int(said.split(" ")[0]) < LONG_S
    assert value is not None and 0 < float(value) < 1
    assert 2 == len(transcript["parts"])
    assert ["0:30.0", "11:30.0"] == [time for time in ("0:30.0", "11:30.0") if time in shown]


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
def test_a_message_is_written_again_and_an_answer_made_again(visitor: Person, member: Cookies) -> None:
    """What came after a changed message is replaced, and is back with Undo; so is an answer."""
    page = visitor.enter(member, "/chat")
    page.get_by_text("Settings").click()
    page.get_by_label("Temperature").fill("1")
    _say(visitor, "Hold the note.")
    first = page.locator(".turn.assistant .words").inner_text()
    page.get_by_role("button", name="Answer again").click()
    expect(page.locator(".turn.assistant .words")).not_to_have_text(first)
    expect(page.get_by_role("button", name="Answer again")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Edit").fill("Let it go.")
    page.get_by_role("textbox", name="Edit").press("Enter")
    expect(page.locator(".turn.assistant .words")).to_contain_text("Let it go.")
    expect(page.locator(".turn")).to_have_count(2)
    page.get_by_role("button", name="Undo").last.click()

    expect(page.locator(".turn.user .words")).to_have_text("Hold the note.")
    page.get_by_role("button", name="New").click()
    page.get_by_label("Message").fill("[fake:slow=5] one two")
    page.get_by_label("Message").press("Enter")
    page.locator(".turn.assistant").wait_for()
    page.reload()
    expect(page.locator(".turn.user .words")).to_have_text("[fake:slow=5] one two")
    expect(page.get_by_role("button", name="Answer again")).to_be_visible()


@pytest.mark.variant("page")
def test_a_changed_message_that_is_not_answered_replaces_nothing(visitor: Person, member: Cookies) -> None:
    """The conversation stays, on the page and in the browser."""
    page = visitor.enter(member, "/chat")
    _say(visitor, "First question.")
    _say(visitor, "Second question.")
    before = page.locator(".turn .words").all_inner_texts()
    _hold(page, "**/web/v1/chat/completions")
    page.get_by_role("button", name="Edit").last.click()
    page.get_by_role("textbox", name="Edit").fill("Another question.")
    with page.expect_request("**/web/v1/chat/completions"):
        page.get_by_role("textbox", name="Edit").press("Enter")
    page.get_by_role("button", name="Undo").last.click()
    expect(page.locator(".talk")).to_have_attribute("aria-busy", "false")
    undone = page.locator(".turn .words").all_inner_texts()
    refused = {"error": {"code": "insufficient_balance", "message": "Too little.", "request_id": "req_1"}}
    page.route("**/web/v1/chat/completions", lambda route: route.fulfill(status=403, json=refused))
    page.get_by_label("Message").fill("A third one.")
    page.get_by_role("button", name="Edit").first.click()
    page.get_by_role("textbox", name="Edit").fill("Another question.")
    page.get_by_role("textbox", name="Edit").press("Enter")
    expect(page.locator(".say [role=alert]")).to_be_visible()
    expect(page.get_by_label("Message")).to_have_value("Another question.\nA third one.")
    shown = page.locator(".turn .words").all_inner_texts()
    page.reload()
    expect(page.locator(".turn")).to_have_count(4)

    assert before == undone == shown == page.locator(".turn .words").all_inner_texts()


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
