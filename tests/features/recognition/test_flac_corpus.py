"""The corpus of FLAC files that lie, inspected as an upload is, and decoded as a job does it."""

import pytest

from features.decoding.readers import as_pcm
from servers.corpora import Attack, attacks
from servers.flacs import inspected
from tenuto.media.flac import FlacInvalid

ATTACKS = attacks("flac")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_file_of_the_corpus_is_answered_as_its_line_says(attack: Attack) -> None:
    """What says the truth of its samples is counted, everything else refused with a reason (P14), also if it
    comes byte by byte, or in small pieces that cut heads."""
    answers, found = set[str](), ""
    for piece_bytes in (1 << 20, 1, 7):
        try:
            found, frames = "201", inspected(attack.content(), piece_bytes).frames
            assert frames == 1000 or attack.answers == ("job",)
        except FlacInvalid as error:
            found = "400"
            answers.add(str(error))

    assert found in attack.answers or (found, attack.answers) == ("201", ("job",))
    assert answers == set() if found == "201" else (len(answers) == 1 and "" not in answers)


@pytest.mark.parametrize(
    "attack", [one for one in ATTACKS if one.answers == ("job",)], ids=lambda one: one.name
)
def test_what_only_decoding_reveals_fails_its_job(attack: Attack) -> None:
    """The decoder refuses it, or counts other samples than were admitted (P14)."""
    with pytest.raises(FlacInvalid) as raised:
        as_pcm(attack.content())

    assert str(raised.value)
