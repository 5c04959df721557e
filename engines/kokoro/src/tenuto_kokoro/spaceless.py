"""Units of text that is written without spaces, shared by Chinese and Japanese. Knows neither."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import marks
from .cutting import Unit

OPENING = frozenset("“(")
MINUS = re.compile(r"(?<![A-Za-z0-9)）])[-−](?=[$€£¥￥]?[.]?\d)")
"""A hyphen that is said: before a number, and not between two of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the text: characters to be read together with their neighbours, or what stands between
    them."""

    text: str
    characters: str = ""
    """What is read for it: the text itself, or a number written out."""
    reading: str = ""
    """The reading that the caller chose for a single character."""
    sounds: str = ""
    mark: str = ""
    skipped: bool = False


def marked(text: str) -> Part:
    """Punctuation, white space, or what cannot be spoken."""
    piece = marks.marked(text)
    return Part(text, mark=piece.mark or " ", skipped=piece.skipped)


def units(parts: Iterable[Part], read: Callable[[list[Part]], list[Unit]]) -> list[Unit]:
    """Units of all parts; `read` gives those of neighbouring parts that have characters."""
    found: list[Unit] = []
    run: list[Part] = []
    for part in [*parts, Part("")]:
        if part.characters:
            run.append(part)
            continue
        found += read(run) if run else []
        run = []
        if part.text:
            _add(found, part)
    return _led(found)


def divided(parts: list[Part], words: Iterable[tuple[int, str]]) -> list[Unit]:
    """One unit for each word, given as its count of characters and its sounds; words that share a part share
    a unit, and a part that lies in two words joins them."""
    owners = [index for index, part in enumerate(parts) for _ in part.characters]
    found: list[Unit] = []
    end, first, sounds = 0, 0, ""
    for count, said in words:
        end += count
        sounds += said
        if end == len(owners) or owners[end] != owners[end - 1]:
            last = owners[end - 1] + 1
            text = "".join(part.text for part in parts[first:last])
            found.append(Unit(text, sounds, skipped="" if sounds.strip() else text))
            first, sounds = last, ""
    return found


def _add(units: list[Unit], part: Part) -> None:
    """Add what stands between characters: a unit of its own, or a mark on the unit before."""
    if part.sounds:
        units.append(Unit(part.text, f"{part.sounds} "))
        return
    ending = marks.ending([marks.Piece(part.text, mark=part.mark)])
    skipped = part.text if part.skipped else ""
    if not units or part.mark in OPENING:
        units.append(Unit(part.text, part.mark.replace("\n", " "), ending, skipped))
        return
    last = units[-1]
    mark = part.mark if part.mark.isspace() else f"{part.mark} "
    # All but its end has its pauses already: thousands of marks would be read again with each.
    before = last.phonemes.rstrip(" ")
    sounds = before[:-1] + marks.paused(before[-1:] + mark)
    units[-1] = Unit(last.text + part.text, sounds, max(last.ending, ending), last.skipped + skipped)


def _led(units: list[Unit]) -> list[Unit]:
    """Join opening marks to the word that they lead."""
    found: list[Unit] = []
    lead = Unit("", "")
    for unit in units:
        text, skipped = lead.text + unit.text, lead.skipped + unit.skipped
        lead = Unit(text, lead.phonemes + unit.phonemes, unit.ending, skipped)
        if unit.phonemes.strip() not in OPENING:
            found.append(lead)
            lead = Unit("", "")
    return [*found, lead] if lead.text else found
