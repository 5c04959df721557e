"""What the stand-ins of the models' packages share: answers from a file, and a note of every call.

A model's folder holds `answers.json`, a list: each call takes the next answer, the last stays. Calls are
noted in `calls.jsonl` beside it, so that a test sees what reached the package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Playbook:
    """The answers and the notes of one model's folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._left: list[Any] = []
        self._written: object = None

    def next(self) -> Any:
        """The next answer; an empty text where there are none."""
        path = self._folder / "answers.json"
        written = (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None
        if written != self._written or not self._left:
            # Another test has begun.
            self._written, self._left = written, json.loads(path.read_text("utf-8")) if written else [""]
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]

    def note(self, call: str, **arguments: Any) -> None:
        """Write a call down; what is no JSON is named by its type."""
        line = json.dumps({"call": call, **arguments}, default=lambda value: type(value).__name__)
        with (self._folder / "calls.jsonl").open("a") as file:
            file.write(line + "\n")
