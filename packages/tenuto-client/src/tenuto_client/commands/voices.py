"""`tenuto voices`: list, add, show, play, rename, remove, default."""

from __future__ import annotations

import argparse
from pathlib import Path

from tenuto_client import downloads, reads
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser, add_force
from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting
from tenuto_client.records import Voice
from tenuto_client.steps import path_of

MAX_BYTES = 12 << 20
"""The service's limit for a recording; a larger file is not read in full."""


def add(parser: Parser, verb: str) -> None:
    """Declare the subcommands and their options."""
    listing = parser.add_verb("list", "List the voices that you can use.", "ls")
    listing.add_argument(
        "--kind", choices=("shared", "official", "emotion", "own"), help=t("only voices of this kind")
    )
    new = parser.add_verb("add", "Upload a recording of 1 to 15 seconds as your own voice.")
    new.add_argument("file", metavar="FILE", help=t("a PCM16 WAV, or another WAV, FLAC, MP3, OGG or AIFF"))
    new.add_argument("--name", metavar="NAME", help=t("the name of the voice (default: the file name)"))
    get = parser.add_verb("show", "Show a voice, or save its recording.", "get")
    get.add_argument("-o", "--output", metavar="FILE", help=t("save the recording in this file"))
    add_force(get)
    play = parser.add_verb("play", "Play the recording of a voice.")
    rename = parser.add_verb("rename", "Rename one of your own voices.")
    rm = parser.add_verb("remove", "Delete one of your own voices; this cannot be undone.", "rm")
    default = parser.add_verb("default", "Show or save default voices (jobs do not use them).")
    for command in (get, play, rename, rm):
        command.add_argument("voice", metavar="VOICE", help=t("the id or name of the voice"))
    rename.add_argument("name", metavar="NAME", help=t("the new name"))
    default.add_argument("voice", metavar="VOICE", nargs="?", help=t("the id or name of the voice"))
    default.add_argument("--for", metavar="NAME", dest="account", help=t("save it for this content account"))
    commands = {
        listing: _list,
        new: _add,
        get: _get,
        play: _play,
        rename: _rename,
        rm: _remove,
        default: _default,
    }
    for command, run in commands.items():
        command.common()
        command.set_defaults(run=run)


def find(console: Console, id_or_name: str) -> Voice:
    """The voice with this id or name. Raises InvalidSetting if there is none, or more than one."""
    if id_or_name.startswith("voice_"):
        return console.run(reads.voice(console.link, id_or_name))
    voices = console.run(reads.voices(console.link))
    same = [voice for voice in voices if voice.name.casefold() == id_or_name.casefold()]
    if len(same) == 1:
        return same[0]
    if same:
        ids = ", ".join(voice.voice_id for voice in same)
        raise InvalidSetting(t("several voices have the name {name}: {ids}", name=id_or_name, ids=ids))
    names = ", ".join(voice.name for voice in voices)
    raise InvalidSetting(
        t("no voice has the name {name}; the voices are {names}", name=id_or_name, names=names)
    )


def _list(options: argparse.Namespace, console: Console) -> int:
    voices = [v for v in console.run(reads.voices(console.link)) if options.kind in (None, v.kind)]
    if console.as_json:
        console.document([dict(voice.raw) for voice in voices])
        return 0
    rows = [
        (v.voice_id, v.kind, v.name, ",".join(v.languages), f"{v.audio.get('duration_ms', 0) / 1000:.1f}")
        for v in voices
    ]
    console.table(("voice", "kind", "name", "languages", "seconds"), rows)
    return 0


def _add(options: argparse.Namespace, console: Console) -> int:
    import tempfile

    path = Path(options.file)
    name = options.name or path.stem
    with tempfile.TemporaryDirectory(prefix="tenuto-") as folder:
        content = _wav(path, Path(folder, "voice.wav"))
    console.progress.stage(t("uploading"))
    voice = console.run(reads.create_voice(console.link, name, content, None))
    console.progress.clear()
    _show(console, voice)
    return 0


def _wav(path: Path, converted: Path) -> bytes:
    """The recording as a PCM16 WAV, converted unless it is one already."""
    import wave

    from tenuto_client.audio import convert_to_wav

    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    try:
        with wave.open(str(path)) as wav:
            if wav.getsampwidth() == 2:
                return content
    except (wave.Error, EOFError):
        # Not 16-bit PCM, or not a WAV.
        pass
    convert_to_wav(path, converted)
    return converted.read_bytes()


def _get(options: argparse.Namespace, console: Console) -> int:
    voice = find(console, options.voice)
    if options.output is None:
        if console.as_json:
            console.document(dict(voice.raw))
        else:
            _show(console, voice)
            provenance = voice.provenance or {}
            for name, value in provenance.items():
                console.say(f"{name}: {value}")
        return 0
    from tenuto_client.commands.work import ask_before_replacing, writable

    ask_before_replacing(console, options)
    path = writable(Path(options.output))
    source = path_of("voices", voice.voice_id, "content")
    console.run(downloads.save(console.link, reads.voice_recording(voice), path, source=source))
    console.say(options.output)
    return 0


def _play(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client.commands.play import Player

    def fail(message: str) -> None:
        raise InvalidSetting(message)

    player = Player(fail)
    voice = find(console, options.voice)
    recording = reads.voice_recording(voice)
    memory = downloads.Memory(recording.size_bytes, recording.sha256, recording.media_type)
    path = path_of("voices", voice.voice_id, "content")
    console.run(downloads.fetch(console.link, path, memory, name=voice.voice_id))
    player.play(memory.content)
    player.finish()
    return 0


def _rename(options: argparse.Namespace, console: Console) -> int:
    voice = find(console, options.voice)
    _show(console, console.run(reads.rename_voice(console.link, voice.voice_id, options.name)))
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    voice = find(console, options.voice)
    console.run(reads.delete_voice(console.link, voice.voice_id))
    console.say(voice.voice_id)
    return 0


def _default(options: argparse.Namespace, console: Console) -> int:
    if options.voice is not None:
        voice = find(console, options.voice)
        console.run(reads.save_preference(console.link, voice.voice_id, options.account))
    saved = console.run(reads.preferences(console.link))
    preferences = [*([saved.default] if saved.default else []), *(p for p in saved.data if p.content_account)]
    if console.as_json:
        console.document([{"for": p.content_account, "voice_id": p.voice_id} for p in preferences])
        return 0
    rows = [(p.content_account or t("(default)"), p.voice_id) for p in preferences]
    console.table(("for", "voice"), rows)
    return 0


def _show(console: Console, voice: Voice) -> None:
    if console.as_json:
        console.document(dict(voice.raw))
        return
    seconds = f"{voice.audio.get('duration_ms', 0) / 1000:.1f}"
    row = (voice.voice_id, voice.kind, voice.name, ",".join(voice.languages), seconds)
    console.table(("voice", "kind", "name", "languages", "seconds"), [row])
