"""Text that cannot be spoken: SDK, command line and studio warn before they submit it."""

import asyncio
import json
import unicodedata
import warnings
from pathlib import Path

import pytest
from scripts import unspoken_table

from client.conftest import accepted, content, succeeded
from client.test_verbs import run
from servers.scripted import ScriptedService
from servers.terminals import at_a_terminal
from tenuto.features.models.cache import default_cache
from tenuto_client import AsyncTenuto, Tenuto, UnspokenTextWarning
from tenuto_client.unspoken import unspoken
from tenuto_kokoro.languages import Languages

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
CASES: list[tuple[str, str, bool]] = [
    (text, left_out, is_silent)
    for text, left_out, is_silent in json.loads((ROOT / "studio/tests/unspoken.json").read_text("utf-8"))
]
LINE = ("say", "--model", "m", "-o", "x.wav")


@pytest.mark.parametrize(("text", "left_out", "is_silent"), CASES)
def test_what_nobody_can_read_is_known_beforehand(text: str, left_out: str, is_silent: bool) -> None:
    found = unspoken(text)

    assert (left_out, is_silent) == (found.left_out, found.is_silent)


def test_the_studio_and_the_client_have_one_table() -> None:
    client, studio = (path.read_bytes() for path in unspoken_table.TABLES)

    assert client == studio


@pytest.mark.variant("model")
@pytest.mark.real_engine
@pytest.mark.parametrize(("lang", "step"), [("en", 1), ("zh", 7), ("ja", 7), ("es", 7), ("ar", 7)])
def test_the_table_is_what_the_model_does(lang: str, step: int) -> None:
    """What the model leaves out is what the table says; a language may have a word for a sign of its own."""
    languages = Languages(default_cache() / "text2tashkeel")
    every = [*range(0x3100), *range(0x3100, 0x1F000, 11), *range(0x1F000, 0x1FB00)]
    codes = [code for code in every if unspoken_table.is_assigned(code) and not unspoken_table.is_han(code)]
    codes = [code for code in codes if unicodedata.is_normalized("NFC", chr(code))][::step]
    left_out = unspoken_table.skipped(languages, codes, lang)
    known = {code for code in codes if unspoken(chr(code)).left_out}

    assert 10_000 < len(codes) * step
    assert set() == known - left_out
    assert left_out - known <= {0x066A, 0x3006, 0x3099, 0x309A, 0x9F9F}


def test_the_sdk_warns_before_it_submits(tmp_path: Path) -> None:

    async def speak(url: str, text: str) -> None:
        async with AsyncTenuto("tn_x", url, journal=False) as client:
            await client.speech.create(text, model="m")

    with ScriptedService([accepted()]) as service, Tenuto("tn_x", service.url, journal=False) as client:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            client.speech.create("Привет, world", model="m")
            client.speech.create("Привет", model="m")
            client.speech.create("Hold the 音.", model="m")
            asyncio.run(speak(service.url, "😀 ok"))
        with warnings.catch_warnings(), pytest.raises(UnspokenTextWarning):
            warnings.simplefilter("error", UnspokenTextWarning)
            client.speech.create("😀", model="m")
        submitted = len(service.asked)

    assert ["П р и в е т", "nothing_to_speak", "😀"] == [
        next(part for part in ("П р и в е т", "nothing_to_speak", "😀") if part in str(one.message))
        for one in told
    ]
    assert [(__file__, UnspokenTextWarning)] * 3 == [(one.filename, one.category) for one in told]
    assert 4 == submitted


def test_a_person_is_asked_before_a_text_without_any_sound_is_sent(tmp_path: Path) -> None:
    replies = [accepted(Retry_After="1"), succeeded(), content()]
    with ScriptedService(replies) as service:
        own = {"TENUTO_BASE_URL": service.url, "TENUTO_API_KEY": "tn_x", "TERM": "dumb"}
        own |= {"TENUTO_JOURNAL": str(tmp_path / "journal")}
        refused, shown = at_a_terminal(b"\n", *LINE, "Привет", folder=tmp_path, variables=own)
        before = len(service.asked)
        sent, _ = at_a_terminal(b"y\n", *LINE, "Привет", folder=tmp_path, variables=own)

    assert (2, 0, 0, 3) == (refused, before, sent, len(service.asked))
    assert "nothing in this text can be spoken" in shown and "submit it anyway? [y/N]" in shown
