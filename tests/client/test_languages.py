"""The language of a text: the client and the studio detect the same one."""

import json
from pathlib import Path

import pytest

from tenuto_client.commands.create import guess
from tenuto_client.languages import detect

ROOT = Path(__file__).parents[2]
CASES: list[tuple[str, str | None]] = [
    (text, language)
    for text, language in json.loads((ROOT / "studio/tests/languages.json").read_text("utf-8"))
]


@pytest.mark.parametrize(("text", "language"), CASES)
def test_the_language_of_a_text_is_detected(text: str, language: str | None) -> None:
    assert language == detect(text)


def test_the_studio_and_the_client_detect_by_one_table() -> None:
    client = ROOT / "packages/tenuto-client/src/tenuto_client/languages.json"
    studio = ROOT / "studio/src/lib/languages.json"

    assert client.read_bytes() == studio.read_bytes()


def test_say_takes_the_nearest_language_that_is_spoken() -> None:
    texts = ("Bonjour tout le monde", "你好", "Привет, мир", "2024")

    assert ["en", "zh", "en", "zh"] == [guess(text) for text in texts]
