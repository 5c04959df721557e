"""The frames of an MP3, counted one by one, since only the frames tell how long it is.

A decoder that finds no length in the head takes it from the first frame's bit rate and stops there, and one
that finds a length stops at that, whatever was joined to it. So each run of frames of one kind is a part
with a length that is large enough. Sources: ISO/IEC 11172-3 and 13818-3; the tags that encoders write.
"""

from dataclasses import dataclass
from functools import cache

from tenuto_client.sounds.part import Part, Sounds
from tenuto_client.sounds.source import Source

HEAD_BYTES = 4
_LOOK_BYTES = 192
"""Of a frame, for the tags of an encoder."""
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KBITS = {
    (3, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 1): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""By version (3: MPEG-1, 2: MPEG-2 and 2.5) and layer (3: I, 2: II, 1: III)."""
_SLACK_FRAMES = 3
"""A decoder's own delay, and frames whose beginnings stood in a frame that was cut away."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the first three bytes of a frame say."""

    size: int
    samples: int
    rate: int
    layer: int
    version: int


@dataclass(slots=True)
class _Run:
    """Frames of one kind, one after the other."""

    start: int
    end: int
    key: tuple[int, int, int, bool]
    first: _Kind
    """Of its sound: a tag's own frame may be of another size."""
    promised: int | None
    is_read: bool
    """Whether the decoder takes the length from the tag; it passes over that of VBRI."""
    is_exact: bool
    trimmed: int
    sound_at: int
    frames: int = 0


def begins_frame(content: bytes) -> bool:
    """Whether bytes begin like a frame."""
    return _kind(content) is not None


def find_parts(source: Source, at: int, sounds: Sounds) -> int:
    """Add the runs of frames that begin there; returns where they end."""
    run: _Run | None = None
    while True:
        head = source.at(at, _LOOK_BYTES)
        kind = _kind(head)
        if kind is None:
            break
        if at + kind.size > source.size:
            sounds.lacks("its last frame is not whole")
            at = source.size
            break
        key = (kind.rate, kind.layer, kind.version, head[3] >> 6 == 3)
        tag = _tag_at(head, kind)
        if run is None or tag or key != run.key:
            if run is not None:
                _add(run, sounds)
            run = _begun(at, kind, key, head, tag)
        if not (tag and run.start == at):
            run.first = run.first if run.frames else kind
            run.frames += 1
        at += kind.size
        run.end = at
    if run is not None:
        _add(run, sounds)
    return at


def find_frames(source: Source, at: int) -> int:
    """Where three frames follow each other next; the end of the file if nowhere."""
    while (at := source.find(b"\xff", at)) < source.size:
        place, count = at, 0
        while count < 3 and (kind := _kind(source.at(place, HEAD_BYTES))):
            place, count = place + kind.size, count + 1
        if count == 3:
            return at
        at += 1
    return at


def _begun(at: int, kind: _Kind, key: tuple[int, int, int, bool], head: bytes, tag: int) -> _Run:
    run = _Run(at, at, key, kind, None, False, False, 0, at)
    if not tag:
        return run
    run.sound_at = at + kind.size
    flags = int.from_bytes(head[tag + 4 : tag + 8], "big")
    if head[tag : tag + 4] == b"VBRI":
        run.promised = int.from_bytes(head[tag + 14 : tag + 18], "big")
    elif flags & 1:
        run.promised, run.is_read = int.from_bytes(head[tag + 8 : tag + 12], "big"), True
        about = (
            tag + 8 + 4 * (flags & 1) + 4 * (flags >> 1 & 1) + 100 * (flags >> 2 & 1) + 4 * (flags >> 3 & 1)
        )
        run.is_exact = head[about : about + 4] in (b"LAME", b"Lavc", b"Lavf")
        trims = int.from_bytes(head[about + 21 : about + 24], "big")
        run.trimmed = (trims >> 12) + (trims & 0xFFF) if run.is_exact else 0
    return run


def _add(run: _Run, sounds: Sounds) -> None:
    """As one part. Its encoder's tag stays where it is right: it says what to cut off at both ends."""
    if not run.frames:
        if run.promised:
            sounds.lacks("its head promises more frames than there are")
        return
    if run.promised is not None and run.promised - run.frames > (0 if run.is_exact else 1):
        sounds.lacks(f"its head promises {run.promised} frames, and there are {run.frames}")
    is_right = run.is_read and run.promised == run.frames
    start = run.start if is_right else run.sound_at
    least = (run.frames - _SLACK_FRAMES) * run.first.samples - (run.trimmed if is_right else 0)
    # The decoder's estimate: the length by the size of the first frame. Too long an estimate is harmless.
    claimed = 0 if is_right else (run.frames + _SLACK_FRAMES) * (run.first.size + 1)
    sounds.parts.append(
        Part(((start, run.end),), max(claimed, run.end - start), max(0, least), run.promised is None)
    )


def _tag_at(head: bytes, kind: _Kind) -> int:
    """Where the tag of an encoder begins in a frame, which then holds no sound; 0: it has none."""
    if kind.layer != 1:
        return 0
    mono, stereo = (17, 32) if kind.version == 3 else (9, 17)
    side = mono if head[3] >> 6 == 3 else stereo
    for at in (HEAD_BYTES + side, HEAD_BYTES + side + 2):
        if head[at : at + 4] in (b"Xing", b"Info"):
            return at
    return 36 if head[36:40] == b"VBRI" else 0


def _kind(content: bytes) -> _Kind | None:
    if len(content) < HEAD_BYTES or content[0] != 0xFF:
        return None
    return _kind_of(content[1], content[2] & 0xFE)


@cache
def _kind_of(second: int, third: int) -> _Kind | None:
    version, layer = second >> 3 & 3, second >> 1 & 3
    bits, rates = third >> 4, third >> 2 & 3
    if second < 0xE0 or version == 1 or layer == 0 or bits in (0, 15) or rates == 3:
        return None
    rate = _RATES[version][rates]
    bit_rate = 1000 * _KBITS[3 if version == 3 else 2, layer][bits]
    padding = third >> 1 & 1
    if layer == 3:
        return _Kind((12 * bit_rate // rate + padding) * 4, 384, rate, layer, version)
    samples = 576 if layer == 1 and version != 3 else 1152
    return _Kind(samples // 8 * bit_rate // rate + padding, samples, rate, layer, version)
