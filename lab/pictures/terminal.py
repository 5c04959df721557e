"""`make pictures`: a session at a terminal, as an SVG for the README; the service is killed in the middle.

Each command runs in a terminal of its own against a service with real engines, and what is left on the
screen is drawn by rich. The picture has no key, no id of an account and no path of this machine in it.
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from features.studio.browser.browser import ROOT
from servers.service import RunningService

PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
COLUMNS = 114
STORY = "A note is held for its full value. Nothing cuts it short, and nothing plays it twice. " * 3
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhln]")
"""Movements of the cursor and the like; colours stay."""
WITHOUT_FONTS = re.sub(r"@font-face {{.*?}}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, ", ""
)
"""rich's format, but for fonts of another host: the reader's own monospaced font is used."""


def main() -> None:
    """Take the picture and say where it is."""
    with tempfile.TemporaryDirectory() as folder:
        house = RunningService(Path(folder) / "data", engines="real")
        house.start()
        try:
            house.key = house.make_key(credit="10")
            console = Console(record=True, width=COLUMNS, file=StringIO())
            (Path(folder) / "story.txt").write_text(STORY)
            session = Session(console, Path(folder), house)
            session.run('tenuto say "Hold the note for its full value." -o note.wav')
            session.run("tenuto transcribe note.wav --lang en")
            session.run("tenuto say story.txt -o story.wav", meanwhile=session.crash)
            session.run("tenuto jobs list")
        finally:
            house.stop()
    PICTURE.write_text(
        console.export_svg(title="Tenuto", theme=MONOKAI, unique_id="tenuto", code_format=WITHOUT_FONTS)
    )
    print(f"the picture is {PICTURE.relative_to(ROOT)}")


class Session:
    """Somebody at a terminal, logged in to the service."""

    def __init__(self, console: Console, folder: Path, house: RunningService) -> None:
        self.console, self.folder, self.house = console, folder, house
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "TENUTO_BASE_URL": house.url,
            "TENUTO_API_KEY": house.key,
        }

    def run(self, command: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Run a command in a terminal, and draw it with what is left on the screen."""
        self.console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        beside = threading.Thread(target=meanwhile)
        beside.start()
        written = self._read(ours)
        beside.join()
        assert process.wait(120) == 0, written
        lines = [line.rsplit("\r", 1)[-1] for line in written.replace("\r\n", "\n").split("\n")]
        for line in filter(str.strip, lines):
            self.console.print(Text.from_ansi(CONTROL.sub("", line)))
        self.console.print()

    def crash(self) -> None:
        """Kill the service while the job runs, as a machine does that loses power; start it again."""
        time.sleep(2.5)
        self.house.kill()
        self.console.print(
            Text("# meanwhile: kill -9 of the service, and it starts again", style="italic yellow")
        )
        self.house.start()

    def _read(self, terminal: int) -> str:
        chunks = []
        while True:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:  # the other end is closed: the command has finished
                break
            if not chunk:
                break
            chunks.append(chunk)
        os.close(terminal)
        return b"".join(chunks).decode("utf-8")


if __name__ == "__main__":
    main()
