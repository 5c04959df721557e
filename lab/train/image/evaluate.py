"""Step 8: what the independent judge says of the shipped model on the 200 held-out prompts.

`python -m lab.train.image.evaluate` runs the engine as it ships (512 × 512, 20 steps, the model's guidance,
the prompt's number as seed), and writes evaluation.json beside this file. Nothing here is trained.
"""

import argparse
import csv
import hashlib
import io
import json
import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
from lab.train.image import looks, texts
from lab.train.image.concepts import concepts
from lab.train.image.judge import Judge, cut_out
from lab.train.image.places import HERE, SHIPPED, work
from PIL import Image

Floats = npt.NDArray[np.float32]

SIDE = 512
STEPS = 20
_COLUMNS, _CELL = 10, 128


class Asked:
    """A run of the engine, as a host would hand it over."""

    def __init__(self, prompt: str, seed: int, **more: Any) -> None:
        from tenuto.host.registry import entry_of

        self.run_id = str(seed)
        self.inputs: dict[str, bytes] = {}
        defaults = {
            **entry_of("tenuto/pictograms").defaults,
            "width": SIDE,
            "height": SIDE,
            "num_inference_steps": STEPS,
        }
        self.parameters = {**defaults, "prompt": prompt, "seed": seed, **more}

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        raise AssertionError("an image has no segments")

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        pass

    def check_cancelled(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.train.image.evaluate")
    parser.add_argument("--write", action="store_true", help="keep the figures and the sheet in the tree")
    parser.add_argument("--every", type=int, default=1, help="only each n-th prompt, for a quick look")
    given = parser.parse_args()
    judge = Judge()
    wanted = (HERE / "judge.sha256").read_text().split()[0]
    if judge.sha256 != wanted:
        print(f"this judge is another one than was fixed: {judge.sha256}", file=sys.stderr)
    engine = load_engine()
    rows = list(csv.DictReader((HERE / "prompts.tsv").open(encoding="utf-8"), delimiter="\t"))
    rows = rows[:: given.every]
    outcomes, pictures, seconds = [], [], []
    for number, row in enumerate(rows):
        began = time.monotonic()
        result = engine.run(Asked(row["prompt"], number))
        seconds.append(time.monotonic() - began)
        picture = np.asarray(Image.open(io.BytesIO(result.content)), np.float32) / 255
        pictures.append(picture)
        outcomes.append(
            judged(judge, row, picture)
            | {"id": row["id"], "drawn": [one["concept"] for one in result.metadata["drawn"]]}
        )
    figures = summed(rows, outcomes)
    figures["seconds a picture"] = {
        "median": round(float(np.median(seconds)), 2),
        "longest": round(max(seconds), 2),
    }
    figures["judge"] = judge.sha256
    figures["files"] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(SHIPPED.iterdir())
    }
    print(json.dumps(figures, indent=1, ensure_ascii=False))
    _sheet(pictures).save(work("sheet.png"))
    work("outcomes.json").write_text(json.dumps(outcomes, indent=0, ensure_ascii=False))
    if given.write:
        (HERE / "evaluation.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def load_engine() -> Any:
    """The engine as it ships, on the files in the tree and the sentence encoder of its package."""
    texts.encoder()
    weights = {"pictograms": str(SHIPPED), "e5-small-q4": str(work("e5-small-q4.bin"))}
    return texts.engine("").PictogramsEngine({"weights": weights, "model_revision": "here"})


def judged(judge: Judge, row: dict[str, str], picture: Floats) -> dict[str, Any]:
    """What the judge says of one picture: which of the things it finds, and what else the prompt asks for."""
    objects = [[_number(label) for label in one.split("|")] for one in row["objects"].split(" + ")]
    colours = row["colours"].split(" + ") if row["colours"] else [""]
    if row["kind"] == "relation":
        return _related(judge, row["relation"], objects, colours, picture)
    boxes = looks.parts(picture) if row["kind"] == "count" else []
    pieces = [picture[top:bottom, left:right] for top, bottom, left, right in boxes] or [picture]
    framed = [_framed(piece, picture) for piece in pieces]
    ranks = [_rank(judge, piece, objects[0], shape=bool(colours[0])) for piece in framed]
    found: dict[str, Any] = {"ranks": [int(np.median(ranks))]}
    if colours[0]:
        found["colour"] = bool(looks.colour_is(cut_out(picture), colours[0]))
    if row["count"]:
        found["count"] = len(boxes) == int(row["count"])
    return found


def summed(rows: list[dict[str, str]], outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures, by language and by kind of prompt."""
    figures: dict[str, Any] = {}
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for name in ("all", row["language"], row["kind"], f"{row['language']}, {row['kind']}"):
            groups[name].append(place)
    for name, places in groups.items():
        ranks = [rank for place in places for rank in outcomes[place]["ranks"]]
        figures[name] = {
            "things": len(ranks),
            "top-1": _share(rank < 1 for rank in ranks),
            "top-5": _share(rank < 5 for rank in ranks),
        }
        for what in ("colour", "count", "relation"):
            said = [outcomes[place][what] for place in places if what in outcomes[place]]
            if said:
                figures[name][f"{what} right"] = _share(said)
    return figures


def _related(
    judge: Judge, relation: str, objects: list[list[int]], colours: list[str], picture: Floats
) -> dict[str, Any]:
    """Both halves of the picture, each as the one or the other thing, as it fits best."""
    upright = relation in ("above", "below")
    pieces = [_framed(piece, picture) for piece in looks.halves(picture, 0 if upright else 1)]
    scores = [judge.scores(cut_out(piece)[None], shape=False)[0] for piece in pieces]
    best = [[max(float(score[number]) for number in one) for score in scores] for one in objects]
    straight = best[0][0] + best[1][1] >= best[0][1] + best[1][0]
    places = (0, 1) if straight else (1, 0)
    found: dict[str, Any] = {
        "ranks": [
            _rank(judge, pieces[place], one, shape=bool(colour))
            for place, one, colour in zip(places, objects, [*colours, ""], strict=False)
        ]
    }
    if colours[0]:
        found["colour"] = bool(looks.colour_is(cut_out(pieces[places[0]]), colours[0]))
    wanted = {"left": (0, 1), "right": (1, 0), "above": (0, 1), "below": (1, 0)}.get(relation)
    if wanted is not None:
        found["relation"] = places == wanted
    return found


def _rank(judge: Judge, piece: Floats, wanted: list[int], *, shape: bool) -> int:
    cut = cut_out(piece)[None]
    return min(int(judge.ranks(cut, np.array([number]), shape=shape)[0]) for number in wanted)


def _framed(piece: Floats, picture: Floats) -> Floats:
    """A piece with a margin in the colour of the picture's corner, for the judge looks at what differs from
    the border."""
    framed = np.empty((piece.shape[0] + 8, piece.shape[1] + 8, 3), np.float32)
    framed[:] = picture[0, 0]
    framed[4:-4, 4:-4] = piece
    return framed


def _number(label: str) -> int:
    return next(number for number, concept in enumerate(concepts()) if concept.label == label)


def _share(said: Any) -> float:
    values = list(said)
    return round(sum(map(bool, values)) / len(values), 3)


def _sheet(pictures: list[Floats]) -> Image.Image:
    rows = -(-len(pictures) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * _CELL, rows * _CELL))
    for place, picture in enumerate(pictures):
        small = Image.fromarray((picture * 255).astype(np.uint8)).resize(
            (_CELL - 4, _CELL - 4), Image.Resampling.LANCZOS
        )
        sheet.paste(small, (place % _COLUMNS * _CELL + 2, place // _COLUMNS * _CELL + 2))
    return sheet


if __name__ == "__main__":
    main()
