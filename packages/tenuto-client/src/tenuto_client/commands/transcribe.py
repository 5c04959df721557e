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
        "file", metavar="FILE", help=t("the recording: WAV, FLAC, MP3, OGG, or anything that ffmpeg reads")
    )
    group = parser.add_argument_group(t("result"))
    group.add_argument("-o", "--output", metavar="FILE", help=t("the output file (default: stdout)"))
    group.add_argument(
        "--to", choices=FORMS, help=t("the format (default: by the suffix of -o FILE, else txt)")
    )
    group.add_argument("--lang", metavar="LANG", help=t("the language, for the second engine (default: zh)"))
    add_work(parser, "docs/recognition.md")
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Write down what is said."""
    from tenuto_client.commands import work

    source = Path(options.file).expanduser()
    if source.is_dir():
        raise AudioError(t("{path} is a folder; name a file in it", path=options.file))
    if not source.is_file():
        raise AudioError(t("{path}: no such file", path=options.file))
    ending = Path(options.output or "").suffix.removeprefix(".").lower()
    form = options.to or (ending if ending in FORMS else "txt")
    output = options.output or work.STDOUT
    if console.as_json and options.output is None:
        form = "json"
    parameters = dict(options.parameters) | ({"language": options.lang} if options.lang else {})
    purpose = work.purpose_of("transcribe", output, form, source)
    entry, reading = work.carry_out(console, "recognition", options, parameters, purpose)
    return work.finish(console, entry, reading)
