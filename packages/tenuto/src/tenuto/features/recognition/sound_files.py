"""Sound files as FLAC: the parent of the child `to_flac`."""

import json
from typing import Any, BinaryIO

from tenuto.features.decoding.decoder_child import (
    DecoderEnded,
    DecoderFailed,
    NotReadable,
    read_answer,
    start_child,
    warn_unconfined,
)

ANSWER_S = 1800.0
"""After this long a child that makes a FLAC is killed, however busy the machine is."""


def to_flac(source: BinaryIO, target: BinaryIO) -> int:
    """Decode the file `source` into the empty file `target`; both are real files, open and unbuffered.

    Returns how many samples were written. Raises NotReadable, DecoderEnded and DecoderFailed.
    """
    source.seek(0)
    child = start_child("tenuto.features.recognition.to_flac", source=source, output=target.fileno())
    with child:
        try:
            answer = read_answer(child, ANSWER_S)
        finally:
            child.kill()
    try:
        read: dict[str, Any] = json.loads(answer)
        if "refused" in read:
            raise NotReadable(str(read["refused"])[:300])
        if "failed" in read:
            raise DecoderFailed(str(read["failed"])[:300])
        warn_unconfined(tuple(str(one)[:300] for one in read["unconfined"]))
        return int(read["frames"])
    except NotReadable:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise DecoderEnded("it takes too much time or memory to decode") from error
