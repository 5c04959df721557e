"""How OpenAI's routes cut a long text, and how they join the segments of a transcript."""

import json

import pytest

from tenuto.features.openai.speech import cut_at_sentences
from tenuto.features.openai.transcriptions import read_transcript


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two. Three.", ["One. Two.", "Three."]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("aaaa bbbb cccc", ["aaaa bbbb", "cccc"]),
        ("語" * 7, ["語語語", "語語語", "語"]),
        ("One. Two. -----", ["One. Two."]),
        ("-" * 12, ["-" * 10]),
        ("一。”二三四", ["一。”", "二三四"]),
        ('"A bee." "Be."', ['"A bee."', '"Be."']),
        ("abc<力|LI4>", ["abc", "<力|LI4>"]),
    ],
)
def test_texts_are_cut_where_a_reader_would(text: str, pieces: list[str]) -> None:
    """At sentences, else clauses, else words, else anywhere but in an annotation. White space is lost,
    and so are pieces of which nothing can be spoken: their jobs would fail, and the request with them."""
    assert pieces == cut_at_sentences(text, 10)


def test_texts_are_joined_as_they_are_written() -> None:
    """Spaces between words that have them, none between Chinese or Japanese sentences; empty pieces are left
    out, speakers are letters in the order of their labels."""
    segments = [
        ("Hold it.", "S02"),
        (" ", None),
        ("好的。", "S01"),
        ("再见。", "S01"),
        ("안녕.", "S03"),
        ("Bye.", "S02"),
    ]
    engine = {
        "language": "zh",
        "segments": [
            {"start": at, "end": at + 1, "text": text, "speaker": speaker}
            for at, (text, speaker) in enumerate(segments)
        ],
    }
    result = {"audio": {"duration_seconds": 5.2}, "engines": {"segment_text": engine}}
    transcript = read_transcript(json.dumps(result).encode())
    diarized = transcript.as_json("diarized_json")

    assert "Hold it.好的。再见。안녕. Bye." == transcript.text()
    assert ["B", "A", "A", "C", "B"] == [segment["speaker"] for segment in diarized["segments"]]
    assert {"type": "duration", "seconds": 6} == diarized["usage"]
