"""M4A and MP4, WebM and Matroska, WMA, AMR, ADTS and AVI: whether all that their heads promise has arrived.

ffmpeg decodes them as far as they go, without a word of what is missing; so they are walked beforehand.
"""

from tenuto_client.sounds.source import Source, after_id3

_MAX_BOXES = 1_000_000
"""Also frames: two hours have 675,000 at most."""
_NOT_WHOLE = "its last frame is not whole"
_TOO_MANY = "it has too many parts"
SECOND = "a second file was joined to it, which would not be read"
_EBML, _SEGMENT, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1F43B675
_ASF = b"0&\xb2u\x8ef\xcf\x11"
_AMR = (12, 13, 15, 17, 19, 20, 26, 31, 5, 0, 0, 0, 0, 0, 0, 0)
_AMR_WB = (17, 23, 32, 36, 40, 46, 50, 58, 60, 5, 0, 0, 0, 0, 0, 0)
_ASF_DATA = b"6&\xb2u\x8ef\xcf\x11"
_ASF_ABOUT = b"\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65"
_LIVE_BYTES = 50
"""Of the data of a live ASF, and of its head."""
_LIVE_END_BYTES = 12
_PACKET = b"\x82\0\0"
"""With what a packet of an ASF begins."""
_ADTS_HEAD_BYTES = 7
_AVI_LISTS = (b"AVI ", b"AVIX", b"movi", b"rec ")
_FLV, _FLV_HEAD_BYTES = b"FLV\x01", 9
_OPEN_BYTES = 0x7FFF_0000
"""A longer AVI is a stream, which could not fill in its length."""
_TAG_BYTES = 128
"""Of an ID3v1 tag."""


def missing_of(source: Source) -> str | None:
    """What of a file is missing by its own heads; None: nothing, or it is none of these formats."""
    head = source.at(0, 12)
    at = after_id3(source, 0)
    frame = source.at(at, 2)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        missing = _boxes(source)
    elif head[:4] == _EBML.to_bytes(4, "big"):
        missing = _elements(source)
    elif head[:8] == _ASF:
        missing = _asf(source)
    elif head[:5] == b"#!AMR":
        missing = _amr(source)
    elif head[:4] == b"RIFF" and head[8:] == b"AVI ":
        missing = _avi(source)
    elif head[:4] == _FLV:
        missing = _flv(source)
    elif frame[:1] == b"\xff" and len(frame) > 1 and frame[1] & 0xF6 == 0xF0:
        missing = _adts(source, at)
    else:
        missing = None
    return missing


def _short(promised: int, source: Source) -> str:
    return f"its heads promise {promised} bytes, and {source.size} have arrived"


def _boxes(source: Source) -> str | None:
    """The boxes of an MP4, one after the other; one with the length 0 goes to the end."""
    at, in_fragments = 0, False
    for _ in range(_MAX_BOXES):
        head = source.at(at, 16)
        if not head or (head[:3] == b"TAG" and source.size - at == _TAG_BYTES):
            return None
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        is_box = len(head) >= 8 and head[4:8].isascii() and head[4:8].decode().isprintable()
        if length == 0 and is_box:
            return None
        if length < 8 or not is_box:
            is_end = source.is_little(at) if in_fragments else source.is_padding(at)
            return None if is_end else f"what begins at byte {at} is no part of it"
        if at and head[4:8] == b"ftyp":
            return SECOND
        in_fragments = in_fragments or head[4:8] == b"moof"
        promised = at + length + (_indexed_bytes(source.at(at, length)) if head[4:8] == b"sidx" else 0)
        if promised > source.size:
            return _short(promised, source)
        at += length
    return _TOO_MANY


def _indexed_bytes(index: bytes) -> int:
    """How much follows an index of fragments, by itself. Source: ISO/IEC 14496-12, 8.16.3."""
    wide = 8 if index[8:9] == b"\1" else 4
    entries = 24 + 2 * wide
    first = int.from_bytes(index[20 + wide : 20 + 2 * wide], "big")
    sizes = (int.from_bytes(index[place : place + 4], "big") for place in range(entries, len(index) - 11, 12))
    return first + sum(size & 0x7FFF_FFFF for size in sizes)


def _elements(source: Source) -> str | None:
    """The elements of a Matroska: those of a segment or a cluster without a length are walked one by one."""
    at = 0
    for _ in range(_MAX_BOXES):
        if at >= source.size:
            return None
        first = source.at(at, 12)
        id_bytes, name = _number(first, keep=True)
        length_bytes, length = _number(first[id_bytes:], keep=False) if id_bytes else (0, 0)
        if at and source.is_little(at):
            return None
        if not id_bytes or not length_bytes:
            return (
                _short(at + 12, source) if len(first) < 12 else f"what begins at byte {at} is no part of it"
            )
        if at and name == _EBML:
            return SECOND
        is_open = length == (1 << 7 * length_bytes) - 1
        at += id_bytes + length_bytes
        if at + length > source.size and not is_open:
            return _short(at + length, source)
        if not is_open or name not in (_SEGMENT, _CLUSTER):
            at += length
    return _TOO_MANY


def _number(content: bytes, *, keep: bool) -> tuple[int, int]:
    """A number of variable length and its length in bytes, which is 0 if it is none."""
    if not content or not content[0]:
        return 0, 0
    size = 9 - content[0].bit_length()
    if len(content) < size:
        return 0, 0
    value = int.from_bytes(content[:size], "big")
    return size, value if keep else value & (1 << 7 * size) - 1


def _asf(source: Source) -> str | None:
    """The objects of an ASF; a live stream's data has the length of its head alone."""
    at = 0
    for _ in range(_MAX_BOXES):
        head = source.at(at, 24)
        if not head:
            return None
        length = int.from_bytes(head[16:24], "little")
        if len(head) < 24 or at + length > source.size:
            return _short(at + max(24, length), source)
        if at and head[:8] == _ASF:
            return SECOND
        if at and length <= _LIVE_BYTES:
            return _live_asf(source, at)
        if head[:8] == _ASF_DATA and (damaged := _damaged_packet(source, at, at + length)):
            return damaged
        at += length
    return _TOO_MANY


def _packet_bytes(source: Source, data_at: int) -> int:
    """How long each packet is; 0: unknown."""
    content = source.at(0, min(data_at, 1 << 20))
    about = content.find(_ASF_ABOUT)
    return int.from_bytes(content[about + 92 : about + 96], "little") if about >= 0 else 0


def _damaged_packet(source: Source, data_at: int, end: int) -> str | None:
    """A decoder looks for the next packet behind a hole, without a word."""
    size, first = _packet_bytes(source, data_at), data_at + _LIVE_BYTES
    if size < len(_PACKET) or source.at(first, len(_PACKET)) != _PACKET:
        return None
    for at in range(first, min(end - size, first + size * _MAX_BOXES) + 1, size):
        if source.at(at, len(_PACKET)) != _PACKET:
            return f"the packet at byte {at} is damaged"
    return None


def _live_asf(source: Source, data_at: int) -> str | None:
    """The packets of a stream that was recorded, all of one size."""
    size = _packet_bytes(source, data_at)
    rest = (source.size - data_at - _LIVE_BYTES) % size if size else 0
    is_end = rest == _LIVE_END_BYTES and source.at(source.size - rest, 2) == b"$E"
    return "its last packet is not whole" if rest and not is_end else None


def _avi(source: Source) -> str | None:
    """The chunks of an AVI, of whose lists a long one has several; a stream's length is not known."""
    at = end = 0
    for _ in range(_MAX_BOXES):
        if at >= source.size:
            end = max(at, end)
            return _short(end, source) if end > source.size + 1 else None
        head = source.at(at, 12)
        length = int.from_bytes(head[4:8], "little")
        if head[:4] == b"RIFF" and 0 < length < _OPEN_BYTES:
            end = at + 8 + length
        if head[8:] in _AVI_LISTS:
            at += len(head)
        elif head[:4].isascii() and head[:4].decode().isprintable():
            at += 8 + length + length % 2
        else:
            return None if source.is_padding(at) else f"what begins at byte {at} is no part of it"
    return _TOO_MANY


def _flv(source: Source) -> str | None:
    """ffmpeg tells of a tag that is cut, and reads the first of joined files."""
    at = _FLV_HEAD_BYTES
    while (at := source.find(_FLV, at)) < source.size:
        if int.from_bytes(source.at(at + 5, 4), "big") == _FLV_HEAD_BYTES:
            return SECOND
        at += 1
    return None


def _amr(source: Source) -> str | None:
    is_wide = source.at(0, 9) == b"#!AMR-WB\n"
    sizes, at = (_AMR_WB, 9) if is_wide else (_AMR, 6)
    for _ in range(_MAX_BOXES):
        if at >= source.size:
            return _NOT_WHOLE if at > source.size else None
        if source.at(at, 5) == b"#!AMR":
            return SECOND
        at += 1 + sizes[source.at(at, 1)[0] >> 3 & 15]
    return _TOO_MANY


def _adts(source: Source, at: int) -> str | None:
    for _ in range(_MAX_BOXES):
        if at >= source.size:
            return _NOT_WHOLE if at > source.size else None
        head = source.at(at, _ADTS_HEAD_BYTES)
        if head[:3] == b"ID3":
            at = max(at + 1, after_id3(source, at))
            continue
        if head[:3] in (b"TAG", b"APE"):
            return None
        length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5 if len(head) == _ADTS_HEAD_BYTES else 0
        if len(head) < _ADTS_HEAD_BYTES or head[0] != 0xFF:
            if source.is_little(at):
                return None
            return _NOT_WHOLE if len(head) < _ADTS_HEAD_BYTES else f"byte {at} is in no frame"
        if length < _ADTS_HEAD_BYTES:
            return f"the frame at byte {at} is damaged"
        at += length
    return _TOO_MANY
