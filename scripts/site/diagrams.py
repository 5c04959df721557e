"""Draws the Mermaid diagrams of a page as SVG when the site is built: readers then need no script."""

import hashlib
import re
from functools import cache
from pathlib import Path

_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THEMES = {"light": "neutral", "dark": "dark"}


def drawn(text: str, folder: Path, path: str) -> str:
    """The text with two pictures for each diagram, of which the reader's theme shows one."""

    def draw(diagram: re.Match[str]) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = []
        for scheme, theme in THEMES.items():
            source = f'%%{{init: {{"theme": "{theme}"}}}}%%\n{diagram[1]}'
            name = f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.svg"
            (folder / name).write_text(_svg(source), "utf-8")
            pictures.append(f"![diagram]({path}/{name}#only-{scheme})")
        return "\n".join(pictures)

    return _DIAGRAM.sub(draw, text)


@cache
def _svg(source: str) -> str:
    """Takes a second; each language asks for it."""
    import mermaidx

    return str(mermaidx.render(source).svg())
