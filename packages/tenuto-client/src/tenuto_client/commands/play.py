"""Plays WAVs on this machine without gaps, with the first player that is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from collections.abc import Callable

from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting

PLAYERS: tuple[tuple[str, ...], ...] = (
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-r", "{rate}", "-c", "{channels}", "-"),
    ("pacat", "--raw", "--format=s16le", "--rate={rate}", "--channels={channels}"),
    ("ffplay", "-v", "error", "-nodisp", "-autoexit", "-f", "s16le", "-ar", "{rate}", "-i", "-"),
    ("play", "-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", "{rate}", "-c", "{channels}", "-"),
)
"""All of them read samples from stdin, so that segments join without a gap."""


class Player:
    """A player process, started with the first WAV. If it fails, `tell` gets a message."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        command = next((command for command in PLAYERS if shutil.which(command[0])), None)
        if command is None:
            names = ", ".join(command[0] for command in PLAYERS)
            raise InvalidSetting(t("no audio player is installed; install one of {names}", names=names))
        self._tell = tell
        self._has_failed = False
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def play(self, content: bytes, *, starts_over: bool = False) -> None:
        """Play a WAV after the earlier ones or, if `starts_over`, instead of them."""
        if self._has_failed:
            return
        with wave.open(io.BytesIO(content)) as wav:
            values = {"rate": wav.getframerate(), "channels": wav.getnchannels()}
            samples = wav.readframes(wav.getnframes())
        if starts_over:
            self.stop()
        if self._process is None:
            command = [word.format(**values) for word in self._command]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(samples)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def finish(self) -> None:
        """Wait until everything has been played."""
        if self._process is not None:
            self._process.communicate()
            if self._process.returncode:
                self._fail()
            self._process = None

    def stop(self) -> None:
        """Stop playing."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _fail(self) -> None:
        self.stop()
        self._has_failed = True
        self._tell(t("{player} failed to play", player=self._command[0]))
