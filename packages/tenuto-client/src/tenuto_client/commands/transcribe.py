"""`tenuto transcribe`: a recording becomes text, subtitles, or the whole result as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser, add_work
from tenuto_client.commands.words import t
from tenuto_client.errors import AudioError
from tenuto_client.transcripts import FORMS


def add(parser: Parser, verb: str) -> None:
    """Its options."""
    parser.add_argument(
        "file", metavar="FILE", help=t("a recording: WAV, FLAC, MP3, OGG, or what ffmpeg reads")
    )
    group = parser.add_argument_group(t("result"))
    group.add_argument("-o", "--output", metavar="FILE", help=t("where; else stdout"))
    group.add_argument("--to", choices=FORMS, help=t("the form; else that of FILE's ending, else txt"))
    group.add_argument("--lang", metavar="LANG", help=t("the language, for the second engine; else zh"))
    add_work(group, "docs/recognition.md")
    parser.common()


def run(options: argparse.Namespace, console: Console) -> int:
    """Write down what is said."""
    from tenuto_client.commands import work

    source = Path(options.file).expanduser()
    if source.is_dir():
        raise AudioError(t("{path} is a folder; name a file in it", path=options.file))
    if not source.is_file():
        raise AudioError(t("{path}: there is no such file", path=options.file))
    ending = Path(options.output or "").suffix.removeprefix(".").lower()
    form = options.to or (ending if ending in FORMS else "txt")
    output = options.output or work.STDOUT
    if console.as_json and options.output is None:
        form = "json"
    parameters = dict(options.parameters) | ({"language": options.lang} if options.lang else {})
    purpose = work.purpose_of("transcribe", output, form, source)
    entry, reading = work.carry_out(console, "recognition", options, parameters, purpose)
    return work.finish(console, entry, reading)
