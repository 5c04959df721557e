"""What each page of the studio does, with the fake engines: a voice from the microphone, the same picture
again, a key that ends, an account by invitation, problems that say what to do."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, expect

from servers.service import RunningService
from studio.browser import PASSWORD, Cookies, Person, person

FIRST_LOAD_BYTES = 150 * 1024
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


def test_a_voice_comes_from_the_microphone(visitor: Person, member: Cookies) -> None:
    """A take that is too short is refused; a good one is heard, named, agreed to, renamed and deleted."""
    visitor.become(member)
    visitor.open("/voices")
    page = visitor.page
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


def test_the_same_seed_draws_the_same_picture(visitor: Person, member: Cookies) -> None:
    """A seed of more digits than the browser's numbers hold comes back whole with its settings."""
    visitor.become(member)
    visitor.open("/images")
    page = visitor.page
    page.get_by_label("Prompt").fill("a long note")
    for _ in range(2):
        page.get_by_role("button", name="Draw", exact=True).click()
        page.locator(".result .state.succeeded").wait_for()
        page.get_by_role("button", name="With its seed").first.click()
        expect(page.locator("details input[inputmode=numeric]")).not_to_have_value("")
    one, other = visitor.ask("GET", "/web/v1/jobs?kind=image&limit=2")[1]["data"]

    assert one["id"] != other["id"]
    assert one["artifacts"][0]["sha256"] == other["artifacts"][0]["sha256"]


def test_a_job_has_a_page_of_its_own(visitor: Person, member: Cookies) -> None:
    """What it was asked, went through and cost, and the same again as a command or in the form."""
    visitor.become(member)
    visitor.open("/speech")
    page = visitor.page
    page.get_by_label("The text to speak").fill('It\'s "held" $HOME.')
    page.get_by_text("Sliders").click()
    page.get_by_label("Sad").fill("0.4")
    page.get_by_role("button", name="Generate").click()
    page.locator(".result .state.succeeded").wait_for()
    page.get_by_role("link", name="Open its page").click()
    page.get_by_role("button", name="Copy as curl").click()
    command = page.evaluate("navigator.clipboard.readText()")
    expect(page.locator(".timeline strong")).to_have_text(["Queued", "Running", "Succeeded"])
    expect(page.locator(".halves tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Use these settings again").click()

    expect(page.get_by_label("The text to speak")).to_have_value('It\'s "held" $HOME.')
    expect(page.get_by_label("Sad")).to_have_value("0.4")
    assert "It'\\''s" in command
    assert "$KEY" in command


def test_a_key_that_is_revoked_ends(visitor: Person, member: Cookies, fake_house: RunningService) -> None:
    """A key for some models only is refused at once when it is revoked, and stays in the list (R201)."""
    visitor.become(member)
    visitor.open("/keys")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("short-lived")
    page.get_by_label("Only for some models").check()
    page.get_by_label("fake/image").check()
    page.get_by_role("button", name="Make the key").click()
    key = page.locator(".secret code").inner_text()
    with fake_house.client(key) as client:
        before = [model["id"] for model in client.get("/v1/models").json()["data"]]
        page.get_by_role("button", name="I have saved it").click()
        line = page.locator("tr", has_text="short-lived")
        line.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(line).to_contain_text("Revoked")
        after = client.get("/v1/models").status_code

    assert ["fake/image"] == before
    assert 401 == after


def test_an_operator_invites_and_pays_in(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """The link makes the account once, and says so afterwards; the credit is on the other's page to the
    micro, and once, however often the button is pressed."""
    with (
        person(browser, fake_house.url) as operator,
        person(browser, fake_house.url, language="zh") as guest,
    ):
        operator.become(operator_cookie)
        operator.open("/operator/accounts")
        operator.page.get_by_label("Account name").fill("guest")
        operator.page.get_by_role("button", name="Make a link").dblclick()
        link = operator.page.locator(".secret code").inner_text()
        guest.open(link.removeprefix(fake_house.url))
        guest.page.get_by_label("密码").fill(PASSWORD)
        guest.page.get_by_role("button", name="设置密码并进入").click()
        guest.page.get_by_role("heading", name="guest").wait_for()
        operator.page.get_by_role("button", name="Manage guest").click()
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


def test_what_nobody_can_read_is_said_below_the_text(visitor: Person, member: Cookies) -> None:
    """Before it is submitted, and in the language of the page; a text that is read whole has no such line."""
    visitor.become(member)
    visitor.open("/speech")
    text, line = visitor.page.get_by_label("The text to speak"), visitor.page.locator("p.note[role=status]")
    text.fill("Hold the 音.")
    expect(line).to_have_count(0)
    text.fill("Привет, world")
    expect(line).to_have_text("These characters cannot be spoken and will be left out: П р и в е т")
    text.fill("😀")
    expect(line).to_have_text("Nothing in this text can be spoken.")


def test_a_problem_says_why_what_to_do_and_which_request(visitor: Person, member: Cookies) -> None:
    """Reason and remedy in the reader's language, the service's own words, and the number to report."""
    visitor.become(member)
    visitor.page.goto(f"{visitor.url}/jobs/job_01jd4k0a3v6c8e9g2h5m7n0p1q")
    alert = visitor.page.get_by_role("alert").first

    expect(alert).to_contain_text(
        "There is no such thing. It may have been deleted, or belong to another account."
    )
    expect(alert.locator("code")).to_have_text(re.compile("^req_"))


def test_a_service_that_is_away_is_said_and_nothing_is_lost(visitor: Person, member: Cookies) -> None:
    """What was written stays, and sending it again works when the service is back."""
    visitor.become(member)
    visitor.open("/chat")
    page = visitor.page
    page.get_by_label("Message").fill("Are you there?")
    page.context.set_offline(True)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    expect(page.get_by_label("Message")).to_have_value("Are you there?")
    page.context.set_offline(False)
    page.get_by_role("button", name="Send").click()

    page.locator(".turn.assistant footer").wait_for()


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


@pytest.mark.parametrize("path", ["/", "/speech"])
def test_the_first_load_is_small(visitor: Person, member: Cookies, path: str) -> None:
    """150 KB at most, compressed, with all that a page needs; what draws waveforms comes with the first."""
    visitor.become(member)
    visitor.open(path)
    visitor.page.wait_for_load_state("networkidle")
    loaded = visitor.page.evaluate(
        """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
          .filter(one => one.name.includes('/assets/') || one.entryType === 'navigation')
          .map(one => [one.name, one.encodedBodySize])"""
    )
    total = sum(size for _, size in loaded)
    print(f"{path}: {total} bytes in {len(loaded)} files")

    assert 20_000 < total <= FIRST_LOAD_BYTES
    assert not [name for name, _ in loaded if "wavesurfer" in name]
