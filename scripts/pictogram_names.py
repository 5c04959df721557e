"""Writes studio/src/lib/pictograms.json: what the model tenuto/pictograms draws, under all of its names.

The studio searches it before a picture is paid for. One entry for each thing: its label, then its names in
the five languages, as the engine's own list has them; tests/features/studio/browser compares the two.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONCEPTS = ROOT / "engines/pictograms/src/tenuto_pictograms/weights/concepts.json"
WRITTEN = ROOT / "studio/src/lib/pictograms.json"


def names() -> list[list[str]]:
    """Label and names of each thing, in the engine's order."""
    concepts = json.loads(CONCEPTS.read_text("utf-8"))
    found = [[label] for label in concepts["labels"]]
    for name, number in concepts["names"].items():
        if name != found[number][0]:
            found[number].append(name)
    return found


def text() -> str:
    """The file: a line for each thing."""
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in names())
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    WRITTEN.write_text(text(), "utf-8")
