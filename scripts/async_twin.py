"""Writes the asyncio half of the SDK from its other half, line by line.

    python scripts/async_twin.py [--check]

It makes `aio.py` from `client.py` and `aio_jobs.py` from `jobs.py`, with `async` and `await`. With `--check`
it writes nothing; the exit code is 1 if a file is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "packages" / "tenuto-client" / "src" / "tenuto_client"
TWINS = {"client.py": "aio.py", "jobs.py": "aio_jobs.py"}

CLASSES = ("Job", "Tenuto", "Session")
"""Names that get the prefix `Async`; the resources keep theirs, nobody else imports them."""

STAYS = ("__init__", "__repr__", "_update", "_forget_if_final")
"""Methods that await nothing."""

RULES: tuple[tuple[str, str], ...] = (
    (r"\btenuto_client\.jobs\b", "tenuto_client.aio_jobs"),
    (
        r"for programs that run in threads\. `aio\.py` is made from this file\.",
        "for asyncio. Made from `client.py`.",
    ),
    (r"that runs in threads; `aio` has its twin\.", "that runs on asyncio. Made from `jobs.py`."),
    (r"\bIterator\b", "AsyncIterator"),
    (r"a `with` block", "an `async with` block"),
    (r"__enter__", "__aenter__"),
    (r"__exit__", "__aexit__"),
    (
        r"(?<!def )(?<!`)\b(self\._session\.run\(|self\._submit\(|self\.close\(\)|self\._finished\(\)"
        r"|self\.wait\(\)|self\.get\(|self\.read\(\)|job\.wait\(|self\._session\.driver\.close\(\))",
        r"await \1",
    ),
    (r"  # noqa: UP028 .*", ""),
    (r"for block in self", "async for block in self"),
    (
        r"content = creation\.content_of\(file\)",
        "content = await asyncio.to_thread(creation.content_of, file)",
    ),
)


def twin(text: str) -> str:
    """The asyncio version of a module."""
    for name in CLASSES:
        text = re.sub(rf"(?<![\w.\"]){name}\b(?! service)", f"Async{name}", text)
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    lines = text.splitlines()
    out = []
    for number, original in enumerate(lines):
        line = original
        method = re.match(r"(    )def (\w+)\(", line)
        decorated = number > 0 and lines[number - 1].strip() == "@property"
        if method and method[2] not in STAYS and not decorated:
            # An overload that returns an iterator is an `async def`, too: it awaits the head of the answer.
            line = line.replace("def ", "async def ", 1)
        out.append(line)
    text = "\n".join(out) + "\n"
    if "asyncio.to_thread" in text:
        text = text.replace(
            "from __future__ import annotations\n", "from __future__ import annotations\n\nimport asyncio", 1
        )
    return _formatted(text)


def _formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (("check", "--fix-only", "--quiet", "--select", "I"), ("format", "--quiet")):
        arguments = [ruff, *command, "--stdin-filename", str(FOLDER / "twin.py"), "-"]
        done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


def main() -> int:
    """Write the files, or check them with `--check`."""
    stale = []
    for source, target in TWINS.items():
        text = twin((FOLDER / source).read_text("utf-8"))
        path = FOLDER / target
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(target)
        else:
            path.write_text(text, "utf-8")
    if stale:
        sys.stderr.write(f"{', '.join(stale)}: run python scripts/async_twin.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
