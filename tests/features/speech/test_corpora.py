"""The corpora of JSON and of WAV, whole: what a service does with some of them is in tests/contract."""

from contextlib import suppress

from servers.corpora import Attack, attacks
from tenuto.errors import InvalidRequest
from tenuto.features.speech import parameters as speech
from tenuto.features.voices.rules import check_recording
from tenuto.kind import envelope
from tenuto.strict_json import parse

MAX_VALUES = 10_000
OF_RECORDS = {"meaning-model-path.json", "meaning-model-sql.json"} | {
    "meaning-voice-sql.json",
    "meaning-voice-url.json",
}
"""Jobs on a model or with a voice that is not there: the tests of the contract send them."""


def test_all_json_but_what_only_records_tell_is_refused() -> None:
    """Bombs, liars and other formats: by the parser, the envelope or the parameters (P14)."""
    taken = {attack.name for attack in attacks("json") if is_job(attack.content())}

    assert OF_RECORDS == taken


def test_a_recording_of_the_corpus_is_taken_or_refused_as_its_line_says() -> None:
    """A voice is a valid PCM16 WAV of 1 to 15 seconds, whatever its header says (P14)."""
    wrong = [attack.name for attack in attacks("wav") if is_voice(attack) != ("201" in attack.answers)]

    assert [] == wrong


def is_job(content: bytes) -> bool:
    with suppress(InvalidRequest):
        found, faults = envelope.check(parse(content, max_values=MAX_VALUES))
        return found is not None and not faults and not speech.check(found.parameters)[1]
    return False


def is_voice(attack: Attack) -> bool:
    with suppress(InvalidRequest):
        check_recording(attack.content())
        return True
    return False
