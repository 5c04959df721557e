"""`tenuto say`: a text becomes a WAV file, and can be heard while it is made."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser, add_work
from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting

LANGUAGES = ("zh", "en", "ja", "es", "ar")
MAX_TEXT_FILE_BYTES = 1 << 20

_FILE = re.compile(r"\S+\.(txt|md|srt)", re.IGNORECASE)
"""What nobody means to hear: the name of a text file that was mistyped."""

_SCRIPTS: tuple[tuple[str, str], ...] = (
    ("ja", "[\u3040-\u30ff]"),
    ("ar", "[\u0600-\u06ff]"),
    ("zh", "[\u4e00-\u9fff]"),
    ("es", "[¿¡ñáéíóúÑÁÉÍÓÚ]"),
    ("en", "[A-Za-z]"),
)


def add(parser: Parser, verb: str) -> None:
    """Its options."""
    parser.add_argument("text", metavar="TEXT|FILE|-", help=t("the text, a text file, or - for stdin"))
    group = parser.add_argument_group(t("result"))
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=t("the output file; - for stdout (default: named after the job)"),
    )
    group.add_argument("--play", action="store_true", help=t("play the speech while it is synthesised"))
    group.add_argument("--stream", action="store_true", help=t("synthesise in segments and report each one"))
    group = parser.add_argument_group(t("voice"))
    group.add_argument("--voice", metavar="VOICE", help=t("a voice id or name; see `tenuto voices list`"))
    group.add_argument("--lang", choices=LANGUAGES, help=t("the language (default: guessed from the script)"))
    group.add_argument("--pace", type=float, metavar="FACTOR", help=t("0.5 to 2; larger is slower"))
    add_work(parser, "docs/speech.md")
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Speak."""
    from tenuto_client.commands import work

    text = _text(options.text)
    parameters = dict(options.parameters)
    parameters |= {"text": text, "lang": options.lang or parameters.get("lang") or guess(text)}
    if options.voice:
        from tenuto_client.commands.voices import find

        parameters["voice_id"] = find(console, options.voice).voice_id
    if options.pace is not None:
        parameters["duration_factor"] = options.pace
    if options.play or options.stream:
        parameters["stream"] = True
    _warn(console, text)
    player = None
    if options.play:
        from tenuto_client.commands.play import Player

        player = Player()
    purpose = work.purpose_of("say", options.output)
    entry, reading = work.carry_out(console, "speech", options, parameters, purpose)
    if parameters.get("stream"):
        reading = _follow(console, reading, player)
    return work.finish(console, entry, reading)


def guess(text: str) -> str:
    """The language whose letters are in the text: kana make it Japanese, Han characters alone Chinese."""
    return next((lang for lang, letters in _SCRIPTS if re.search(letters, text)), "zh")


def _warn(console: Console, text: str) -> None:
    """Say what nobody can read. Of a text of which that is all, ask first, where somebody can answer."""
    from tenuto_client.unspoken import unspoken

    found = unspoken(text)
    if found.is_silent:
        console.tell(t("nothing in this text can be spoken: the job will fail and cost nothing"))
        if console.can_ask and not console.confirm(t("submit it anyway?")):
            raise InvalidSetting(t("nothing was submitted"))
    elif found.left_out:
        console.tell(
            t("these characters cannot be spoken and will be left out: {letters}", letters=found.shown)
        )


def _follow(console: Console, reading: Any, player: Any) -> Any:
    """Tell, and play, each segment when it is there; gives the job as it was read last.

    What goes wrong here leaves the file to come.
    """
    from tenuto_client import following

    preview = following.Preview(reading)
    while not preview.is_over:
        for spoken in console.run(following.segments(console.link, preview)):
            seconds = (spoken.segment.duration_ms or 0) / 1000
            if spoken.starts_over:
                console.tell(t("the job started over; discard what you have heard"))
            console.tell(
                t("segment {number}, {seconds:.1f} s", number=spoken.segment.sequence, seconds=seconds)
            )
            if player is not None:
                player.play(spoken.content, starts_over=spoken.starts_over)
        if not preview.is_over:
            console.progress.operation(preview.reading.operation)
    if player is not None:
        player.finish()
    return preview.reading


def _text(given: str) -> str:
    """The text: of stdin, of the file of that name, or the word itself. White space at its ends goes."""
    if given == "-":
        text = sys.stdin.buffer.read(MAX_TEXT_FILE_BYTES + 1)
        found = _decoded(text, t("stdin"))
    elif len(given) < 1024 and "\n" not in given and Path(given).is_file():
        with Path(given).open("rb") as file:
            found = _decoded(file.read(MAX_TEXT_FILE_BYTES + 1), given)
    elif _FILE.fullmatch(given):
        raise InvalidSetting(
            t("{path}: no such file; to speak the name itself, pass it on stdin with -", path=given)
        )
    else:
        found = given.strip()
    if not found:
        raise InvalidSetting(t("there is no text to speak"))
    return found


def _decoded(content: bytes, name: str) -> str:
    try:
        if len(content) > MAX_TEXT_FILE_BYTES:
            raise InvalidSetting(t("{name} is too long: a job takes at most 8,192 bytes", name=name))
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidSetting(t("{name} is not UTF-8 text", name=name)) from error
