"""Step 2: every concept in every style, drawn from its vectors: premultiplied RGBA, 128 pixels square.

`python -m lab.train.image.art` writes art-128.npz to the work folder: pictures [n, 128, 128, 4] of bytes, the
concept and the style of each. Knows the art's packages and nothing of networks.
"""

import io
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import resvg_py
from lab.train.image.concepts import code_of, concepts, read_json
from lab.train.image.places import work
from PIL import Image

Pictures = npt.NDArray[np.uint8]

GENERATOR_STYLES = ("fluent-emoji-flat", "twemoji", "noto")
JUDGE_STYLES = ("openmoji", "emojione-v1", "emojione", "noto-v1")
STYLES = GENERATOR_STYLES + JUDGE_STYLES
SIDE = 128


def main() -> None:
    pictures, owners, styles = [], [], []
    for number, style in enumerate(STYLES):
        drawings = vectors(style)
        for owner, concept in enumerate(concepts()):
            if concept.code in drawings:
                pictures.append(drawn(drawings[concept.code], SIDE))
                owners.append(owner)
                styles.append(number)
        print(f"{style}: {styles.count(number)} of {len(concepts())} concepts", flush=True)
    np.savez_compressed(work("art-128.npz"), pictures=np.stack(pictures), concepts=owners, styles=styles)


def load() -> tuple[Pictures, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The pictures, and the concept and the style of each."""
    with np.load(work("art-128.npz")) as kept:
        return kept["pictures"], kept["concepts"], kept["styles"]


def smaller(pictures: npt.NDArray[Any], side: int) -> npt.NDArray[np.float32]:
    """[n, side, side, 4] in 0..1: the mean of each block of pixels."""
    count, old = len(pictures), pictures.shape[1]
    blocks = pictures.reshape(count, side, old // side, side, old // side, 4)
    found: npt.NDArray[np.float32] = blocks.mean((2, 4), dtype=np.float32) / 255
    return found


def vectors(style: str) -> dict[str, str]:
    """The SVG of every emoji of a style, by its code points."""
    package = f"@iconify-json/{style}"
    icons = read_json(package, "icons.json")
    width, height = icons.get("width", 16), icons.get("height", 16)
    found = {}
    for code, name in _characters(package, icons).items():
        icon = icons["icons"].get(name) or icons["icons"].get(
            icons.get("aliases", {}).get(name, {}).get("parent", "")
        )
        if icon:
            corner = f"{icon.get('left', 0)} {icon.get('top', 0)}"
            box = f"{corner} {icon.get('width', width)} {icon.get('height', height)}"
            names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
            found[code_of(code)] = f'<svg {names} viewBox="{box}">{icon["body"]}</svg>'
    return found


def drawn(svg: str, side: int) -> Pictures:
    """A square picture with premultiplied alpha; what is not square stands in the middle."""
    png = resvg_py.svg_to_bytes(svg_string=svg, width=side, height=side)
    image = Image.open(io.BytesIO(bytes(png))).convert("RGBA")
    if image.size != (side, side):
        square = Image.new("RGBA", (side, side))
        square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        image = square
    pixels = np.asarray(image).astype(np.float32)
    pixels[..., :3] *= pixels[..., 3:] / 255
    return pixels.round().astype(np.uint8)


def _characters(package: str, icons: dict[str, Any]) -> dict[str, str]:
    """Which icon an emoji is. Some packages leave the table empty: then icons are known by their names."""
    table: dict[str, str] = read_json(package, "chars.json")
    return table or {_codes_by_name()[name]: name for name in icons["icons"] if name in _codes_by_name()}


@lru_cache(maxsize=1)
def _codes_by_name() -> dict[str, str]:
    found = {}
    for style in ("openmoji", "twemoji", "fluent-emoji-flat", "noto"):
        found.update({name: code for code, name in read_json(f"@iconify-json/{style}", "chars.json").items()})
    return found


if __name__ == "__main__":
    main()
