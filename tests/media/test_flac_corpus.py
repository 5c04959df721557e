"""The corpus of FLAC files that lie, read as the decoding child reads them, in this process."""

import os
from pathlib import Path

import pytest

from contract.corpora import Attack, attacks
from tenuto.media.flac import FlacInvalid
from tenuto.media.flac_chain import FrameChain
from tenuto.media.flac_child import Input, decode

FOLDER = Path(__file__).parents[1] / "corpora" / "flac"


@pytest.mark.parametrize("attack", attacks("flac"), ids=lambda attack: attack.name)
def test_a_file_of_the_corpus_is_answered_as_its_line_says(attack: Attack) -> None:
    """What says the truth of its samples is counted, everything else refused with a reason (P14)."""
    descriptor = os.open(attack.path, os.O_RDONLY)
    try:
        found = decode(Input(descriptor), None)
        answer = "201"
    except FlacInvalid as error:
        assert str(error)
        answer = "400"
    finally:
        os.close(descriptor)

    assert answer in attack.answers
    assert answer == "400" or found["frames"] == 1000


def test_a_missing_frame_is_missed_however_the_bytes_come() -> None:
    """A decoder fills the gap with silence: the chain of frames tells, also byte by byte."""
    sound, gap = ((FOLDER / f"{name}.flac").read_bytes() for name in ("sound-plain", "frames-one-missing"))
    ends = []
    for content in (sound[42:], gap[42:]):
        chain = FrameChain()
        for at in range(len(content)):
            chain.add(content[at : at + 1])
        ends.append(chain)
    ends[0].finish(1000)

    with pytest.raises(FlacInvalid, match="missing"):
        ends[1].finish(1000)
