"""`tenuto admin voices`: lists the voices of all accounts, and imports voices that every account may use."""

import argparse
from pathlib import Path
from typing import Any

from tenuto.command.common import json_line, moment, new_ids, own_blobs, records, report, say, settle, table
from tenuto.command.options import add_location, location_of
from tenuto.errors import InvalidRequest, OperatorError
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """The commands and their options."""
    every = parser.add_verb("list", "List the voices of all accounts.", "ls")
    new = parser.add_verb("import", "Add a voice that every account may use.", "add")
    new.add_argument(
        "file", type=Path, metavar="FILE", help=t("the recording: a PCM16 WAV of 1 to 15 seconds")
    )
    new.add_argument("--name", required=True, metavar="NAME", help=t("the name of the voice"))
    new.add_argument(
        "--kind",
        choices=("official", "emotion"),
        default="official",
        help=t("a speaker, or a reference for emotion only (default: official)"),
    )
    new.add_argument(
        "--languages",
        default="",
        metavar="A,B",
        help=t("the languages of the voice, comma-separated: zh, en, ja, es, ar"),
    )
    for command, run in {every: _list, new: _import}.items():
        command.add_json()
        add_location(command)
        command.set_defaults(run=run)


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the voices of all accounts; those without an account may be used by every account."""
    from tenuto.db.damaged_text import decoded_json, text_of
    from tenuto.db.database import Transaction
    from tenuto.features.voices import operations
    from tenuto.features.voices.installing import install_voices
    from tenuto.features.voices.rows import LibraryVoiceRow

    def read(tx: Transaction) -> list[LibraryVoiceRow]:
        voices: list[LibraryVoiceRow] = []
        while page := operations.all_voices(tx, after=voices[-1].id if voices else ""):
            voices += page
        return voices

    location = location_of(options)
    with records(location) as database:
        install_voices(database, own_blobs(location.settings(), database))
        voices = database.read(read)
    spoken = [decoded_json(voice.languages, list[str]) for voice in voices]
    listed: list[dict[str, Any]] = [
        {
            "id": voice.id,
            "kind": voice.kind,
            "name": text_of(voice.name),
            "account": text_of(voice.account_name),
            "languages": languages or [],
            "duration_ms": voice.duration_ms,
            "created": moment(voice.created_at),
            "retired": moment(voice.retired_at),
            "damaged": languages is None,
        }
        for voice, languages in zip(voices, spoken, strict=True)
    ]
    if options.as_json:
        say(json_line(listed))
        return 0
    for line in listed:
        line["languages"] = "damaged" if line.pop("damaged") else ",".join(line["languages"]) or None
    headings = ("id", "kind", "name", "account", "languages", "ms", "created", "retired")
    table(headings, (line.values() for line in listed))
    return 0


def _import(options: argparse.Namespace, console: Console) -> int:
    """Add a voice that every account may use, under a new id; it is never overwritten."""
    from tenuto.db.database import Transaction
    from tenuto.features.voices import operations, rules

    name, kind, location = options.name, options.kind, location_of(options)
    spoken = _languages(options.languages)
    fault = rules.name_fault("name", name)
    if fault is not None:
        raise InvalidRequest([fault])
    content = _content(options.file)
    wav = rules.check_recording(content)
    ids, now_ms = new_ids(), clock()
    voice_id = ids.new("voice")
    again = f"import it again unless it is listed (tenuto admin voices list{location.again} shows {voice_id})"
    with records(location) as database:
        blob = own_blobs(location.settings(), database).write(ids.new("blob"), content)

        def create(tx: Transaction) -> None:
            if not operations.exists(tx, account_id="", voice_id=voice_id):
                operations.create(
                    tx,
                    voice_id=voice_id,
                    account_id=None,
                    kind=kind,
                    name=name,
                    languages=spoken,
                    wav=wav,
                    blob=blob,
                    key=None,
                    now_ms=now_ms,
                )

        settle(database, create, again=again)
    report(json_line({"id": voice_id, "name": name, "kind": kind}) if options.as_json else voice_id)
    return 0


def _languages(text: str) -> list[str]:
    """The named languages; OperatorError for one that no model speaks."""
    from tenuto.features.voices.rules import LANGUAGES

    named = [language.strip() for language in text.split(",") if language.strip()]
    unknown = [language for language in named if language not in LANGUAGES]
    if unknown:
        raise OperatorError(f"there is no language {', '.join(unknown)}; there are {', '.join(LANGUAGES)}")
    return named


def _content(file: Path) -> bytes:
    """The file's bytes; OperatorError if there are more than an upload may have."""
    from tenuto.features.voices.rules import MAX_RECORDING_BYTES

    try:
        if file.stat().st_size > MAX_RECORDING_BYTES:
            raise OperatorError(f"{file} has more than {MAX_RECORDING_BYTES} bytes, which no recording needs")
        return file.read_bytes()
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}") from error
