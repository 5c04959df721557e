"""The table of the tiers and its page name folders that are there."""

import re
from pathlib import Path

from tiers import FOLDERS

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "testing.md"


def test_the_page_of_the_tiers_names_every_folder_that_has_one() -> None:
    """And each of them exists, in the table as on the page."""
    named = set(re.findall(r"`tests/(\w+)`", PAGE.read_text("utf-8")))

    assert not set(FOLDERS) - named
    assert not [folder for folder in {*FOLDERS, *named} if not (TESTS / folder).is_dir()]
