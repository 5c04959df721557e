"""No legal text fails the front ends of speech: some hundred hostile ones; `make fuzz` reads a million."""

import pytest
from lab.fuzz.readings import LANGS, check, turn
from lab.fuzz.texts import MAX_BYTES, SLOWEST

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]

EACH = 100


@pytest.mark.parametrize("part", range(5))
def test_hostile_texts_are_read(part: int) -> None:
    """The same five hundred each time: none raises, is lost, is cut too long or takes too long (R69)."""
    assert turn(f"suite {part}", EACH) is None


@pytest.mark.parametrize("text", SLOWEST, ids=lambda text: ascii(text[:4]))
def test_the_longest_texts_are_read_in_bounded_time(text: str) -> None:
    """8,192 bytes of what is slow cost seconds of the processor at most (R69): each text in two languages,
    each language with three texts or more; `make fuzz` has every text in every language."""
    assert MAX_BYTES - 200 < len(text.encode()) <= MAX_BYTES
    at = SLOWEST.index(text)
    for lang in (LANGS[at % 5], LANGS[(at + 2) % 5]):
        check(text, lang, 20, 40, normalise=True)
