"""The pictures of the documentation are read, as anybody who looks at them can read them."""

import re
from pathlib import Path

import numpy as np
import pytest
from lab.pictures.scenes import make_key
from lab.pictures.screenshots import HIDE_KEYS
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

from features.studio.browser.browser import ROOT, Cookies, Person
from tenuto.account.key_rules import is_well_formed

pytestmark = pytest.mark.variant("page")

PICTURES = sorted(path for kind in ("png", "webp") for path in (ROOT / "docs").rglob(f"*.{kind}"))
KEY = re.compile(r"[tT][nN][_\-. ]?[0-9A-Za-z]{24,}")
"""What a full key looks like to a reader who mistakes a letter now and then."""
EXAMPLE = re.compile(r"(?:EXAMPLE){3}")


@pytest.fixture(scope="module")
def reader() -> RapidOCR:
    """Reads printed text in pictures."""
    return RapidOCR(use_cls=False, det_limit_type="max", det_limit_side_len=1280)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_picture_shows_a_key(reader: RapidOCR, path: Path) -> None:
    """A full key never stands in a screenshot (R205, P16)."""
    with Image.open(path) as picture:
        found = keys_in(reader, picture)

    assert [] == found


def test_a_key_in_a_picture_is_read(reader: RapidOCR) -> None:
    """The reader above sees a key where there is one, in the size that the pages show it in."""
    picture = Image.new("RGB", (900, 120), "white")
    text = "Authorization: Bearer tn_aVLuqFn02d9YkLpZN7nvdF8Kx3LdaZg6HeZvb0HRNdqZXQ3HM9"
    ImageDraw.Draw(picture).text((20, 40), text, "black", ImageFont.load_default(size=16))

    assert 1 == len(keys_in(reader, picture))


def test_keys_are_hidden_before_a_picture_is_taken(visitor: Person, member: Cookies) -> None:
    """A page that shows a new key shows an example in its place, in the field and in the command."""
    visitor.enter(member, "/keys")
    make_key(visitor)
    shown = re.findall(r"tn_\w{49}", visitor.page.inner_text("main"))
    visitor.page.evaluate(HIDE_KEYS)
    left = re.findall(r"tn_\w{49}", visitor.page.inner_text("main"))

    assert all(is_well_formed(key) for key in shown)
    assert len(shown) == len(left) >= 2
    assert not any(is_well_formed(key) for key in left)


def keys_in(reader: RapidOCR, picture: Image.Image) -> list[str]:
    """The lines of a picture that hold a key. Only wide lines are read: a key alone has 52 characters."""
    pixels = np.array(picture.convert("RGB"))
    boxes, _ = reader(pixels, use_rec=False)
    texts = []
    for box in np.array(boxes or []).reshape(-1, 4, 2).astype(int):
        (left, top), (right, bottom) = box.min(0).clip(0), box.max(0)
        if right - left > 10 * (bottom - top):
            read, _ = reader(pixels[top:bottom, left:right], use_det=False)
            texts += [text for text, _ in read or []]
    return [text for text in texts if KEY.search(text.replace(" ", "")) and not EXAMPLE.search(text)]
