"""The API reference at /docs in a browser: all of the document, and requests with a key that somebody pastes.

`faults` has every error of a script, every breach of the pages' policy and every request to another host.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from features.studio.browser.browser import Person, person
from servers.document import METHODS, document
from servers.service import RunningService

WIDTHS = (390, 1280)
READ = """() => [...document.querySelectorAll('section')].map(one => [one.id, {
  text: one.textContent,
  fields: [...one.querySelectorAll('dt > code')].map(code => code.textContent),
}])"""
UNFOLD = """() => Promise.all([...document.querySelectorAll('main details:not([open])')].map(
  one => new Promise(done => { one.addEventListener('toggle', done); one.open = true })))"""

UNFOLD_SOME = """ids => {
  document.querySelectorAll('main section').forEach(one => ids.includes(one.id) || one.remove())
  document.querySelectorAll('main details').forEach(one => one.open = true)
}"""
"""Sections are alike: axe takes long, so it looks at all of them folded, and at a few unfolded."""
UNFOLDED = ["createJob", "showJob", "schema-Operation"]
STRUCTURE = ["duplicate-id-aria", "label", "link-name", "button-name", "list", "definition-list", "dlitem"]
MESSAGES = """async () => {
  const { MESSAGES } = await import('./docs/messages.js')
  return Object.values(MESSAGES).map(texts => Object.keys(texts).sort())
}"""


@pytest.fixture(scope="module")
def key(fake_house: RunningService) -> str:
    """A key as the studio or an operator gives it out."""
    return fake_house.make_key("caller", credit="20")


@pytest.fixture
def reader(visitor: Person) -> Person:
    """Somebody at the reference, not signed in."""
    visitor.open("/docs")
    visitor.page.locator("#schema-Error").wait_for()
    return visitor


def opened(reader: Person, operation: str) -> Locator:
    """The form of an operation."""
    form = reader.page.locator(f"#{operation} details.try")
    form.locator("summary").first.click()
    form.get_by_role("button", name="Send").wait_for()
    return form


def paste(reader: Person, key: str) -> None:
    """Give the page a key, and wait until it knows the models."""
    reader.page.get_by_label("API key").fill(key)
    reader.page.keyboard.press("Enter")
    expect(reader.page.locator("#key-state")).to_have_text(re.compile(r"Works; \d+ models\."))


def names(schema: Any) -> Iterator[str]:
    """The fields of a schema, at any depth, without those of other named schemas."""
    for name, each in schema.get("properties", {}).items():
        yield name
        yield from names(each)
    items = [schema["items"]] if "items" in schema else []
    for each in (*items, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from names(each)


@pytest.mark.variant("page")
def test_every_operation_and_every_field_is_shown(reader: Person) -> None:
    """Operations with their parameters, bodies and responses; schemas with all their fields."""
    reader.page.evaluate(UNFOLD)
    shown = dict(reader.page.evaluate(READ))
    contract = document()
    missing: list[Any] = []
    for path, item in contract["paths"].items():
        for method in METHODS:
            if (operation := item.get(method)) is None:
                continue
            section = shown[operation["operationId"]]
            wanted = [path, method.upper(), operation["summary"], *operation["responses"]]
            missing += [(path, method, one) for one in wanted if one not in section["text"]]
            parameters = [
                resolved(one) for one in (*item.get("parameters", ()), *operation.get("parameters", ()))
            ]
            fields = [one["name"] for one in parameters]
            for response in map(resolved, operation["responses"].values()):
                fields += response.get("headers", {})
                for media in response.get("content", {}).values():
                    fields += names(resolved(media.get("schema", {})))
            missing += [(path, method, one) for one in fields if one not in section["fields"]]
    for name, schema in contract["components"]["schemas"].items():
        section = shown[f"schema-{name}"]
        missing += [(name, one) for one in names(schema) if one not in section["fields"]]
        missing += [(name, one) for one in schema.get("enum", ()) if one not in section["text"]]

    assert [] == missing
    assert len(contract["components"]["schemas"]) == sum(one.startswith("schema-") for one in shown)


def resolved(value: Any) -> Any:
    """What a reference leads to."""
    if "$ref" not in value:
        return value
    found: Any = document()
    for name in value["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


def test_a_job_is_submitted_followed_and_its_result_checked(reader: Person, key: str) -> None:
    """From the search to the WAV."""
    page = reader.page
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 (a list's method is not taken)
    page.get_by_role("searchbox").fill("submit job text_normalization")
    expect(page.locator("#matches")).to_have_text("Nothing matches.")
    page.get_by_role("searchbox").fill("submit a job")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#createJob$"))
    form = opened(reader, "createJob")
    form.get_by_role("button", name="Send").click()
    expect(form.locator(".told")).to_have_text("Paste an API key at the top of the page first.")
    paste(reader, key)
    first = form.get_by_label("Idempotency-Key").input_value()
    form.get_by_label("Examples").select_option("english")
    command = form.locator("[aria-label=curl]").inner_text()
    form.get_by_role("button", name="Send").click()
    expect(form.locator(".told").first).to_have_text(re.compile("^202 Accepted in "))
    expect(form.locator("[aria-label=headers]")).to_contain_text("location: /v1/jobs/job_")
    form.get_by_role("button", name="Follow this job").click()
    expect(form.locator(".state")).to_have_text("The job is succeeded.", timeout=30_000)
    form.get_by_role("button", name="Load the result").click()
    expect(form.locator(".told").last).to_have_text(re.compile(r"^\d+ bytes$"))
    expect(form.get_by_text("Length and SHA-256 are right.")).to_be_visible()
    second = form.get_by_label("Idempotency-Key").input_value()
    job = re.search(r"job_\w{26}", form.locator("[aria-label=headers]").inner_text())
    storage = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    show = opened(reader, "showJob")

    assert 32 == len(first) == len(second)
    assert first != second
    assert job is not None
    assert job.group() == show.get_by_label("operation_id").input_value()
    assert "$KEY" in command and first in command
    assert not [one for one in (storage, command, *(request.url for request in requests)) if key in one]
    assert {key} == {
        one.headers["authorization"].removeprefix("Bearer ") for one in requests if "/v1/" in one.url
    }


@pytest.mark.variant("page")
def test_everybody_can_use_the_reference(browser: Browser, fake_house: RunningService) -> None:
    """Wide and narrow, light and dark, in both languages."""
    found = {}
    for width in WIDTHS:
        with person(browser, fake_house.url, width=width) as somebody:
            somebody.open("/docs")
            somebody.page.locator("#schema-Error").wait_for()
            if width == WIDTHS[-1]:
                found[width, "whole", ""] = somebody.axe(STRUCTURE)
            somebody.page.evaluate(UNFOLD_SOME, UNFOLDED)
            for language in ("en", "zh"):
                somebody.speak(language)
                for theme in ("light", "dark"):
                    somebody.page.locator(".looks select").last.select_option(theme)
                    found[width, language, theme] = somebody.axe()
            scrolled = somebody.page.evaluate("document.documentElement.scrollWidth")
            keys = somebody.page.evaluate(MESSAGES)

            assert scrolled <= width
            assert keys[0] == keys[1]
            assert [] == somebody.faults

    assert {} == {one: faults for one, faults in found.items() if faults}
