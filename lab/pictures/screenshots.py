"""`make pictures`: every page of the studio, light and dark, in Chinese and English, wide and narrow.

All of them go into a folder to be looked at; the few that docs/studio.md shows are written there, small, as
WebP. The service is started for it with the real engines, and some work is done first: no page is empty.
"""

import argparse
import base64
import tempfile
from pathlib import Path

from lab.pictures.scenes import SCENES, act_out
from playwright.sync_api import Page, sync_playwright

from features.studio.browser.browser import PASSWORD, ROOT, Cookies, Person, launch, person, why_not
from servers.service import RunningService

PICTURES = ROOT / "docs" / "pictures"
MAX_BYTES = 60_000
SHOWN = {
    ("speech", "en", "light", 1280), ("speech", "en", "dark", 1280), ("speech", "zh", "dark", 1280),
    ("speech", "zh", "light", 1280), ("recognition", "zh", "light", 1280),
    ("images", "en", "dark", 1280), ("job", "zh", "light", 1280), ("usage", "en", "light", 1280),
    ("keys", "zh", "light", 1280), ("speech", "zh", "light", 390),
}  # fmt: skip
"""What the documentation shows: page, language, theme, width."""
OPEN = {"TENUTO_REGISTRATION": "open", "TENUTO_REQUESTS_PER_SECOND": "0", "TENUTO_WEBHOOKS": "any"}
LOOKS = [
    (language, theme, width)
    for language in ("zh", "en")
    for theme in ("light", "dark")
    for width in (1280, 390)
]

_SMALLER = """async ([png, quality]) => {
  const image = new Image()
  image.src = 'data:image/png;base64,' + png
  await image.decode()
  const canvas = document.createElement('canvas')
  canvas.width = image.width
  canvas.height = image.height
  canvas.getContext('2d').drawImage(image, 0, 0)
  return canvas.toDataURL('image/webp', quality).split(',')[1]
}"""


_DRAWS_CHINESE = """() => {
  const drawn = text => {
    const canvas = document.createElement('canvas')
    const context = canvas.getContext('2d')
    context.font = '40px sans-serif'
    context.fillText(text, 10, 60)
    return canvas.toDataURL()
  }
  return drawn('中') !== drawn('書')
}"""
"""Without a font for them, every character is the same box, or nothing."""

HIDE_KEYS = """() => {
  const key = /tn_[0-9A-Za-z]{49}/g
  const example = 'tn_' + 'EXAMPLE'.repeat(7)
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replace(key, example)
  const fields = document.querySelectorAll('input:not([type=file]), textarea')
  for (const field of fields) field.value = field.value.replace(key, example)
}"""
"""Replaces every full key that the page shows by an example of the same length that opens nothing."""


def main() -> None:
    """Take them all and say where they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "pictures")
    parser.add_argument("--only", default="", help="names of pages, with commas")
    parser.add_argument("--engines", choices=("real", "fake"), default="real")
    parser.add_argument("--shown", action="store_true", help="those of the documentation alone")
    parser.add_argument("--look", default="", help="one look alone, as zh-light-1280")
    arguments = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        house = RunningService(Path(data) / "data", engines=arguments.engines, variables=OPEN)
        house.start()
        browser = launch(playwright, prefer_installed=True)
        try:
            with person(browser, house.url) as operator:
                languages = ["zh", "en"] if operator.page.evaluate(_DRAWS_CHINESE) else ["en"]
                cookies = _prepare(operator, house)
            for language, theme, width in LOOKS:
                if language not in languages or arguments.look not in ("", f"{language}-{theme}-{width}"):
                    continue
                with person(browser, house.url, language=language, theme=theme, width=width) as somebody:
                    names = [
                        name
                        for name in SCENES
                        if (not arguments.only or name in arguments.only.split(","))
                        and (not arguments.shown or (name, language, theme, width) in SHOWN)
                    ]
                    _take(somebody, cookies, arguments.folder, (language, theme, width), names)
        finally:
            browser.close()
            house.stop()
    if "zh" not in languages:
        print("none in Chinese: the browser has no font for it; Debian has one in fonts-noto-cjk")
    print(f"the pictures are in {arguments.folder}, those of the documentation in {PICTURES}")


def _prepare(operator: Person, house: RunningService) -> Cookies:
    """The operator's account, with some money and some work behind it."""
    link = house.set_up_link()
    operator.open(link)
    page = operator.page
    page.get_by_label("Account name").fill("Clara")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.get_by_role("heading", name="Hello, Clara").wait_for()
    house.command("admin", "accounts", "credit", "Clara", "50")
    act_out(operator)
    return page.context.cookies()


def _take(
    somebody: Person, cookies: Cookies, folder: Path, look: tuple[str, str, int], names: list[str]
) -> None:
    language, theme, width = look
    for name in names:
        scene = SCENES[name]
        somebody.page.context.clear_cookies()
        if not scene.is_for_visitors:
            somebody.become(cookies)
        somebody.open(scene.path(somebody))
        scene.set_up(somebody)
        somebody.settle()
        somebody.page.mouse.move(0, 0)
        somebody.page.evaluate(HIDE_KEYS)
        png = somebody.page.screenshot(full_page=True, animations="disabled")
        (folder / f"{name}-{language}-{theme}-{width}.png").write_bytes(png)
        if (name, *look) in SHOWN:
            PICTURES.mkdir(exist_ok=True)
            top = somebody.page.screenshot(animations="disabled")
            (PICTURES / f"studio-{name}-{language}-{theme}-{width}.webp").write_bytes(
                _smaller(somebody.page, top)
            )


def _smaller(page: Page, png: bytes) -> bytes:
    """The picture as WebP, as good as fits."""
    for quality in (0.9, 0.8, 0.7, 0.6, 0.5):
        webp = base64.b64decode(page.evaluate(_SMALLER, [base64.b64encode(png).decode(), quality]))
        if len(webp) <= MAX_BYTES:
            break
    return webp


if __name__ == "__main__":
    main()
