"""The sounds in a file, and what of it is missing or is no sound. Formats are recognised by content."""

from tenuto_client.sounds import chunks, flac, mp3, ogg
from tenuto_client.sounds.part import Part, Sounds
from tenuto_client.sounds.source import MOST_PADDING_BYTES, Source, after_id3

MAX_PARTS = 1000
_CHUNKS = {
    **dict.fromkeys(chunks.WAV_MARKS, chunks.find_wav),
    b"riff": chunks.find_w64,
    b"caff": chunks.find_caf,
    **dict.fromkeys((b".snd", b"dns."), chunks.find_au),
}
_TAG_BYTES, _LONG_TAG_BYTES = 128, 227
"""Of an ID3v1 tag, and of the one with longer texts that may stand before it."""
_APE_BYTES = 32
"""Of the head and the foot of an APE tag."""
_LYRICS, _LYRICS_ENDS = b"LYRICSBEGIN", (b"LYRICS200", b"LYRICSEND")


def sounds_of(source: Source) -> Sounds:
    """All sounds of a file: joined files, the links of a chained one, and runs of MP3 frames of one kind."""
    sounds = Sounds()
    end = _end_of_sound(source)
    at = 0
    while at < end and len(sounds.parts) <= MAX_PARTS:
        at = max(at + 1, _next(source, at, end, sounds))
    if len(sounds.parts) > MAX_PARTS:
        sounds.lacks(f"it has more than {MAX_PARTS} parts")
        del sounds.parts[MAX_PARTS:]
    return sounds


def _next(source: Source, at: int, end: int, sounds: Sounds) -> int:
    mark = source.at(at, 12)
    if (after := _after_tag(source, at)) > at:
        if after > source.size and sounds.parts and mark[:3] != b"TAG":
            sounds.lacks(f"the tag at byte {at} has no end")
        return after
    if mark[:4] in _CHUNKS and (mark[:4] not in chunks.WAV_MARKS or mark[8:] in chunks.WAV_FORMS):
        return _CHUNKS[mark[:4]](source, at, sounds)
    if mark[:4] == flac.MARK:
        return flac.find_part(source, at, sounds, end)
    if mark[:4] == ogg.MARK or mp3.begins_frame(mark):
        find = ogg.find_parts if mark[:4] == ogg.MARK else mp3.find_parts
        return find(source, at, sounds)
    return _after_other(source, at, end, sounds)


def _after_other(source: Source, at: int, end: int, sounds: Sounds) -> int:
    """Behind bytes that begin like none of these formats: zeros are padding, all else is told of."""
    place = at
    while at and place < end and not (block := source.at(place, min(1 << 16, end - place))).strip(b"\0"):
        place += len(block)
    if place >= end:
        if place - at > MOST_PADDING_BYTES and sounds.parts and sounds.parts[-1].is_open:
            sounds.lacks(f"its last {end - at} bytes are zeros, as if they had not arrived")
        return end
    if at:
        place += len(block) - len(block.lstrip(b"\0"))
    if place > at:
        return place
    if not sounds.parts and not sounds.missing:
        # The decoder knows more formats.
        sounds.parts.append(Part(((0, source.size),), is_unknown=True))
        return source.size
    if source.is_padding(at):
        return end
    found = min(mp3.find_frames(source, at + 1), source.find(ogg.MARK, at + 1), end)
    sounds.lacks(f"{found - at} bytes from byte {at} on are no sound that can be read")
    return found


def _after_tag(source: Source, at: int) -> int:
    """Behind the tag that begins there: ID3v2, ID3v1, APE or Lyrics3; `at` if none does."""
    head = source.at(at, _APE_BYTES)
    if (after := after_id3(source, at)) > at:
        return after
    if head[:8] == b"APETAGEX" and len(head) == _APE_BYTES:
        has_head = head[23] & 0x80
        return at + int.from_bytes(head[12:16], "little") + (_APE_BYTES if has_head else 0)
    if head[:4] == b"TAG+":
        return at + _LONG_TAG_BYTES
    if head[:3] == b"TAG":
        return at + _TAG_BYTES
    if head.startswith(_LYRICS):
        return min(source.find(mark, at) for mark in _LYRICS_ENDS) + len(_LYRICS_ENDS[0])
    return at


def _end_of_sound(source: Source) -> int:
    """Where the tags at the end begin."""
    end, before = source.size, -1
    while end != before:
        before = end
        if end >= _TAG_BYTES and source.at(end - _TAG_BYTES, 3) == b"TAG":
            end -= _TAG_BYTES
        foot = source.at(max(0, end - _APE_BYTES), _APE_BYTES)
        if foot[:8] == b"APETAGEX" and len(foot) == _APE_BYTES:
            size = int.from_bytes(foot[12:16], "little") + (_APE_BYTES if foot[23] & 0x80 else 0)
            end = max(0, end - size)
    return end
