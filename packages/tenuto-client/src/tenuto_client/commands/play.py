"""Sound on this machine: WAVs, one after the other without a gap, through whatever player is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave

from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting

PLAYERS: tuple[tuple[str, ...], ...] = (
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-r", "{rate}", "-c", "{channels}", "-"),
    ("pacat", "--raw", "--format=s16le", "--rate={rate}", "--channels={channels}"),
    ("ffplay", "-v", "error", "-nodisp", "-autoexit", "-f", "s16le", "-ar", "{rate}", "-i", "-"),
    ("play", "-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", "{rate}", "-c", "{channels}", "-"),
)
"""They take samples on stdin, so that segments join without a gap."""


class Player:
    """A player that is started with the first sound."""

    def __init__(self) -> None:
        found = next((command for command in PLAYERS if shutil.which(command[0])), None)
        if found is None:
            names = ", ".join(command[0] for command in PLAYERS)
            raise InvalidSetting(t("there is no player here; one of {names} is needed", names=names))
        self._command = found
        self._process: subprocess.Popen[bytes] | None = None

    def play(self, content: bytes, *, starts_over: bool = False) -> None:
        """Play a WAV after those before it, or in their place."""
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
            raise InvalidSetting(t("{player} cannot play here", player=self._command[0])) from None

    def finish(self) -> None:
        """Wait until all was heard."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def stop(self) -> None:
        """Be silent now."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
