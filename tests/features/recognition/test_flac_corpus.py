"""The corpus of FLAC files that lie, inspected as an upload is, and decoded as a job does it."""

import pytest

from features.decoding.readers import as_pcm
from servers.corpora import Attack, attacks
from servers.flacs import inspected
from tenuto.media.flac import FlacInvalid

ATTACKS = attacks("flac")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_file_of_the_corpus_is_answered_as_its_line_says(attack: Attack) -> None:
    """What says the truth of its samples is counted, everything else refused with a reason (P14)."""
    try:
        found = inspected(attack.content())
        answer = "201"
    except FlacInvalid as error:
        assert str(error)
        answer = "400"

    assert answer in attack.answers or (answer, attack.answers) == ("201", ("job",))
    assert answer == "400" or found.frames == 1000 or attack.answers == ("job",)


@pytest.mark.parametrize(
    "attack", [one for one in ATTACKS if one.answers == ("job",)], ids=lambda one: one.name
)
def test_what_only_decoding_reveals_fails_its_job(attack: Attack) -> None:
    """The decoder refuses it, or counts other samples than were admitted (P14)."""
    with pytest.raises(FlacInvalid) as raised:
        as_pcm(attack.content())

    assert str(raised.value)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_it_does_not_matter_how_the_bytes_come(attack: Attack) -> None:
    """Byte by byte, or in small pieces that cut heads: the same answer."""
    answers = []
    for piece_bytes in (1 << 20, 1, 7):
        try:
            answers.append(str(inspected(attack.content(), piece_bytes)))
        except FlacInvalid as error:
            answers.append(str(error))

    assert [answers[0]] * 3 == answers
