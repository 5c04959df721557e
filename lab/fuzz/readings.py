"""Readings of hostile texts by the front ends of speech: `python -m lab.fuzz.readings --count 1000000`.

A reading is one text in one `lang`. It raises nothing, loses nothing of the text, leaves out exactly what
docs/speech.md says, and gives segments that the model can speak, in bounded time of the processor. All cores
take part; a failure is printed with its text, and the exit code is 1.
"""

import argparse
import json
import os
import random
import sys
import time
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from lab.fuzz.texts import SLOWEST, hostile

from servers.speed import IS_MEASURED, slowness
from tenuto.features.models.cache import default_cache
from tenuto_kokoro import SYMBOL_LIMIT
from tenuto_kokoro.cutting import Unit, is_voiced, segments
from tenuto_kokoro.languages import Languages

LANGS = ("zh", "en", "ja", "es", "ar")
MOST_S = 5.0
"""The most processor time that 8,192 bytes may take on a quiet machine; the slowest known take two."""
TURN = 500
SPOKEN_SIGNS = frozenset("+−=×÷±%‰&@#°℃℉$€£¥￥²³½¼¾<>")
SPOKEN_SCRIPTS = ("LATIN", "CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA", "KATAKANA", "ARABIC")
SILENT = frozenset({"Cc", "Cf", "Mn", "Me"})


@cache
def languages() -> Languages:
    """The front ends, loaded once in a process."""
    return Languages(default_cache() / "text2tashkeel")


@cache
def vocabulary() -> frozenset[str]:
    """The symbols that the model knows."""
    path = default_cache() / "kokoro-vocabulary"
    return frozenset(json.loads(path.read_text("utf-8"))["vocab"])


def check(text: str, lang: str, limit: int, cap: int, *, normalise: bool) -> None:
    """One reading; raises AssertionError, or whatever the front end does, when it is not as it should be."""
    began = time.process_time()
    units = languages().read(text, lang, normalise)
    found = segments(units, min(limit, cap), cap, first=min(40, cap), soonest=14)
    took_s = time.process_time() - began

    assert unicodedata.normalize("NFC", text) == "".join(unit.text for unit in units), "the units lose text"
    assert not found or "".join(unit.text for unit in units) == "".join(piece.text for piece in found)
    for unit in units:
        _check_skipped(unit)
        unknown = set(unit.phonemes) - vocabulary() - {"\n"}
        assert not unknown, f"the model has no symbols {unknown}"
    for piece in found:
        assert 1 <= len(piece.phonemes) <= cap, "a segment is longer than a call may be"
        assert is_voiced(piece.phonemes), "a segment is silent"
    assert found or not any(is_voiced(unit.phonemes) for unit in units), "sounds are in no segment"
    if IS_MEASURED and took_s >= MOST_S:
        assert took_s < MOST_S * slowness(), f"it took {took_s:.2f} s of the processor"


def _check_skipped(unit: Unit) -> None:
    """What is left out is what the documentation says, and stands in the unit's text."""
    for char in unit.skipped:
        name = unicodedata.name(char, "")
        assert char in unit.text
        assert not char.isdecimal(), f"the digit {char!r} is left out"
        assert char not in SPOKEN_SIGNS, f"the sign {char!r} is left out"
        assert not char.isspace(), "white space is left out with a warning"
        assert unicodedata.category(char) not in SILENT, f"{char!r} is left out with a warning"
        assert char.isascii() is False, f"{char!r} is left out"
        assert not (name.startswith("LATIN") and unicodedata.normalize("NFD", char)[0].isascii()), char


def readings(seed: str, count: int) -> Iterator[tuple[str, str, int, int, bool]]:
    """Hostile texts, each with the arguments of `check`."""
    draw = random.Random(seed)
    for _ in range(count):
        cap = draw.randint(35, SYMBOL_LIMIT)
        yield hostile(draw), draw.choice(LANGS), draw.randint(20, 200), cap, draw.random() < 0.8


def turn(seed: str, count: int = TURN) -> str | None:
    """Some readings; the first that is not as it should be, in words."""
    for text, lang, limit, cap, normalise in readings(seed, count):
        try:
            check(text, lang, limit, cap, normalise=normalise)
        except Exception as error:
            return (
                f"{lang}, normalise={normalise}, limit {limit}, cap {cap}, seed {seed!r}: {error!r}\n{text!r}"
            )
    return None


def slowest(lang: str) -> str | None:
    """The longest texts of what is slow, in a language; the first that is not as it should be, in words."""
    for text in SLOWEST:
        try:
            check(text, lang, 20, 40, normalise=True)
        except Exception as error:
            return f"{lang}: {error!r}\n{text[:40]!r}…"
    return None


def main() -> int:
    """0 when nothing was found."""
    options = argparse.ArgumentParser(prog="python -m lab.fuzz.readings")
    options.add_argument("--count", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=None)
    asked = options.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    seeds = [f"{seed} {index}" for index in range(-(-asked.count // TURN))]
    began, done = time.monotonic(), 0
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for failure in [*pool.map(slowest, LANGS)]:
            if failure is not None:
                print(failure)
                return 1
        for failure in pool.map(turn, seeds):
            done += TURN
            if failure is not None:
                print(failure)
                pool.shutdown(cancel_futures=True)
                return 1
    print(f"seed {seed}: {done} readings in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
