"""The page of webhooks with a real service and a real receiver: made, tried, paused, rotated, resent."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from standardwebhooks import Webhook

from features.studio.browser.browser import Cookies, Person
from features.studio.browser.test_studio_access import look
from servers.receiver import Receiver, plainly
from servers.service import RunningService


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
def test_everybody_can_see_what_became_of_a_webhook(
    visitor: Person, member: Cookies, receiver: Receiver
) -> None:
    """A webhook that its server ended shows why, with its deliveries."""
    receiver.answering = plainly(410)
    visitor.enter(member, "/webhooks")
    body = {"url": f"{receiver.url}?{'long=' * 60}", "events": ["job.failed"], "description": "x" * 200}
    status, made = visitor.ask("POST", "/web/v1/webhooks", body)
    assert status == 201, made
    page = visitor.page
    page.reload()
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("The service disabled it: the server answered 410 Gone.")).to_be_visible()
    expect(page.locator("tbody .state")).to_have_text("given up")
    faults = look(visitor, "/webhooks")
    visitor.ask("DELETE", f"/web/v1/webhooks/{made['id']}")

    assert [] == faults


@pytest.mark.variant("page")
def test_a_service_without_webhooks_has_no_such_page(
    visitor: Person, member: Cookies, fake_house: RunningService
) -> None:
    """Neither in the menu nor at its address, when the session says that the operator does not allow them."""
    visitor.become(member)
    without = '"webhooks": false'
    visitor.page.route(
        "**/web/session",
        lambda route: route.fulfill(
            response=(answer := route.fetch()),
            body=answer.text().replace('"webhooks":true', without).replace('"webhooks": true', without),
        ),
    )
    visitor.open("/webhooks")

    expect(visitor.page.get_by_role("heading", level=1)).not_to_have_text("Webhooks")
    expect(visitor.page.get_by_role("navigation").get_by_text("Webhooks")).to_have_count(0)
