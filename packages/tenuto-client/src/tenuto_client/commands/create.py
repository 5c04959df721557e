"""`tenuto say`, `draw` and `transcribe`: the commands that submit a job and save its result."""

from __future__ import annotations

import argparse
import errno
import re
import sys
from pathlib import Path
from typing import Any

from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser, add_force, add_work, between, checked
from tenuto_client.commands.words import t
from tenuto_client.errors import AudioError, InvalidSetting
from tenuto_client.paths import expanded
from tenuto_client.transcripts import FORMS

LANGUAGES = ("zh", "en", "ja", "es", "ar")
MAX_TEXT_FILE_BYTES = 1 << 20

_FILE = re.compile(r"\S+\.(txt|md|srt)", re.IGNORECASE)
"""Looks like the name of a text file, probably mistyped, and not like a text to speak."""


def add(parser: Parser, verb: str) -> None:
    """The options of one command."""
    {"say": _add_say, "draw": _add_draw, "transcribe": _add_transcribe}[verb](parser)
    parser.common()


def _add_say(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT|FILE|-", help=t("the text, a text file, or - for stdin"))
    group = _add_output(parser)
    group.add_argument("--play", action="store_true", help=t("play the speech while it is synthesised"))
    group.add_argument("--stream", action="store_true", help=t("synthesise in segments and report each one"))
    group = parser.add_argument_group(t("voice"))
    group.add_argument("--voice", metavar="VOICE", help=t("a voice id or name; see `tenuto voices list`"))
    group.add_argument("--lang", choices=LANGUAGES, help=t("the language (default: guessed from the script)"))
    group.add_argument("--speed", type=between(0.5, 2), metavar="X", help=t("0.5 to 2; larger is faster"))
    group.add_argument("--pace", type=between(0.5, 2), metavar="X", help=t("1 / speed; larger is slower"))
    add_work(parser, "docs/speech.md")
    parser.set_defaults(run=_say)


def _add_draw(parser: Parser) -> None:
    parser.add_argument(
        "prompt", metavar="PROMPT", help=t("what the image should show, in a language that the model knows")
    )
    group = _add_output(parser)
    group.add_argument("--size", type=checked(size), metavar="WxH", help=t("pixels, for example 512x512"))
    group.add_argument("--seed", type=int, metavar="N", help=t("the same seed gives the same image"))
    group.add_argument(
        "--steps", type=between(1, 100, int), metavar="N", help=t("1 to 100; more steps take longer")
    )
    group.add_argument(
        "--guidance",
        type=between(0, 20),
        metavar="X",
        help=t("0 to 20: how closely the image follows the prompt"),
    )
    add_work(parser, "docs/images.md")
    parser.set_defaults(run=_draw)


def _add_transcribe(parser: Parser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help=t("the recording: WAV, FLAC, MP3, OGG, and with ffmpeg M4A, WebM and most films"),
    )
    group = parser.add_argument_group(t("result"))
    group.add_argument("-o", "--output", metavar="FILE", help=t("the output file (default: stdout)"))
    add_force(group)
    group.add_argument(
        "--to", choices=FORMS, help=t("the format (default: by the suffix of -o FILE, else txt)")
    )
    group.add_argument(
        "--lang", metavar="LANG", help=t("the language, for the second engine (default: auto, detect it)")
    )
    add_work(parser, "docs/recognition.md")
    parser.set_defaults(run=_transcribe)


def _add_output(parser: Parser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group(t("result"))
    help_text = t("the output file; - for stdout (default: named after the job)")
    group.add_argument("-o", "--output", metavar="FILE", help=help_text)
    add_force(group)
    return group


def _say(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client.commands import work

    text = _text(options.text)
    parameters = dict(options.parameters)
    parameters |= {"text": text, "lang": options.lang or parameters.get("lang") or guess(text)}
    if options.voice:
        from tenuto_client.commands.voices import find

        parameters["voice_id"] = find(console, options.voice).voice_id
    if options.speed is not None:
        parameters["duration_factor"] = round(1 / options.speed, 4)
    if options.pace is not None:
        parameters["duration_factor"] = options.pace
    if options.play or options.stream:
        parameters["stream"] = True
    work.ask_before_replacing(console, options)
    if not options.lang and "lang" not in dict(options.parameters):
        _warn_of_language(console, text)
    _warn(console, text)
    player = None
    if options.play:
        from tenuto_client.commands.play import Player

        player = Player(console.tell)
    purpose = work.purpose_of("say", options.output)
    entry, reading = work.carry_out(console, "speech", options, parameters, purpose)
    if parameters.get("stream"):
        reading = _follow(console, reading, player)
    return work.finish(console, entry, reading)


def _draw(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client.commands import work

    parameters = {**dict(options.parameters), "prompt": options.prompt}
    if options.size is not None:
        parameters["width"], parameters["height"] = options.size
    named = {"seed": options.seed, "num_inference_steps": options.steps, "guidance_scale": options.guidance}
    parameters |= {name: value for name, value in named.items() if value is not None}
    work.ask_before_replacing(console, options)
    purpose = work.purpose_of("draw", options.output)
    entry, reading = work.carry_out(console, "image", options, parameters, purpose)
    return work.finish(console, entry, reading)


def _transcribe(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client.commands import work

    source = expanded(options.file)
    if source.is_dir():
        raise AudioError(t("{path} is a folder; name a file in it", path=options.file))
    if not source.is_file():
        raise AudioError(t("{path}: no such file", path=options.file))
    suffix = Path(options.output or "").suffix.removeprefix(".").lower()
    form = options.to or (suffix if suffix in FORMS else "txt")
    output = options.output or work.STDOUT
    if console.as_json and options.output is None:
        form = "json"
    parameters = {"language": "auto"} | dict(options.parameters)
    if options.lang:
        parameters["language"] = options.lang
        _check_language(console, options)
    work.ask_before_replacing(console, options)
    purpose = work.purpose_of("transcribe", output, form, source)
    entry, reading = work.carry_out(console, "recognition", options, parameters, purpose)
    return work.finish(console, entry, reading)


def _check_language(console: Console, options: argparse.Namespace) -> None:
    """Raises InvalidSetting if the model to be used lists its languages and this is not one of them."""
    from tenuto_client import reads

    name = options.model or console.run(reads.model_for(console.link, "recognition"))
    model = next((one for one in console.run(reads.models(console.link)) if one.id == name), None)
    languages = model.languages if model else ()
    if options.lang != "auto" and languages and options.lang.partition("-")[0].lower() not in languages:
        raise InvalidSetting(
            t(
                "{model} does not know the language {lang}; it knows {languages}",
                model=name,
                lang=options.lang,
                languages=", ".join(languages),
            )
        )


def guess(text: str) -> str:
    """The language to speak a text in."""
    from tenuto_client.languages import spoken

    return spoken(text)


def size(text: str) -> tuple[int, int]:
    """`512x768` as width and height."""
    match = re.fullmatch(r"(\d{1,5})[x×*](\d{1,5})", text)
    if match is None:
        raise ValueError(t("write WIDTHxHEIGHT, for example 512x512"))
    return int(match[1]), int(match[2])


def _warn_of_language(console: Console, text: str) -> None:
    """Warn if the letters can be spoken, but not the language."""
    from tenuto_client.languages import detect

    names = {"fr": t("French"), "de": t("German"), "it": t("Italian"), "pt": t("Portuguese")}
    if (language := names.get(detect(text) or "")) is not None:
        console.tell(t("{language} is not supported; the text is read as English", language=language))


def _warn(console: Console, text: str) -> None:
    """List the characters that cannot be spoken. If none can, ask before submitting, if a user can answer."""
    from tenuto_client.unspoken import unspoken

    check = unspoken(text)
    if check.is_silent:
        console.tell(t("nothing in this text can be spoken: the job will fail and cost nothing"))
        if console.can_ask and not console.confirm(t("submit it anyway?")):
            raise InvalidSetting(t("nothing was submitted"))
    elif check.left_out:
        console.tell(
            t("these characters cannot be spoken and will be left out: {letters}", letters=check.summary)
        )


def _follow(console: Console, reading: Any, player: Any) -> Any:
    """Report, and play, each segment as it becomes available; returns the job as it was last read.

    A player that fails does not affect the result file.
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


def _text(argument: str) -> str:
    """The text: from stdin, from the file of that name, or the argument itself, stripped of white space."""
    if argument == "-":
        text = _decoded(sys.stdin.buffer.read(MAX_TEXT_FILE_BYTES + 1), t("stdin"))
    elif _is_file(argument):
        with Path(argument).open("rb") as file:
            text = _decoded(file.read(MAX_TEXT_FILE_BYTES + 1), argument)
    elif _FILE.fullmatch(argument):
        raise InvalidSetting(
            t("{path}: no such file; to speak the name itself, pass it on stdin with -", path=argument)
        )
    else:
        text = argument.strip()
    if not text:
        raise InvalidSetting(t("there is no text to speak"))
    return text


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except OSError as error:
        # A text without a slash is one name to the file system, and longer than a name can be.
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def _decoded(content: bytes, name: str) -> str:
    try:
        if len(content) > MAX_TEXT_FILE_BYTES:
            raise InvalidSetting(t("{name} is too long: a job takes at most 8,192 bytes", name=name))
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidSetting(t("{name} is not UTF-8 text", name=name)) from error
