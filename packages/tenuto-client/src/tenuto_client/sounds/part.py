"""One sound of a file, as a decoder gets it, and what is said of a file that is not whole."""

from dataclasses import dataclass

DAMAGED = "some of it could not be decoded"
"""What is missing of a file in which ffmpeg met an error and went on."""


@dataclass(frozen=True, slots=True)
class Part:
    """One sound: bytes of the file, some of them replaced, as if they were a file of their own."""

    pieces: tuple[tuple[int, int] | bytes, ...]
    """From one byte of the file to another, or bytes in the place of some."""
    claimed_bytes: int = 0
    """The length to give to a decoder that takes a sound's length from it, if that is more."""
    least_frames: int | None = None
    """How many frames decoding must give, or some were lost; None: as many as the head says."""
    is_open: bool = False
    """Whether nothing but its end tells how long it is."""
    is_unknown: bool = False
    """Whether it begins like none of the formats that are walked here."""


class Sounds:
    """The sounds of a file, in their order, and what is wrong with it."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.missing: str | None = None
        """What is not there, or what is there and is no sound; None: the file is whole."""

    def lacks(self, what: str) -> None:
        """Keep the first fault that was found."""
        self.missing = self.missing or what


def told_incomplete(missing: str, seconds: float) -> str:
    """Why a file is refused of which something is missing, how much of it can be read, and how to go on."""
    if not seconds:
        return f"it is damaged or cut off: {missing}; it holds no sound that can be read"
    return (
        f"it is cut off or damaged: {missing}. {seconds:.2f} s of it can be read; to use those, write them "
        "to a new file, as with `ffmpeg -i FILE NEW.flac`"
    )
