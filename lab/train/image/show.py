"""Step 9: the pictures of the model card: the loss over the training, and a sheet of fixed prompts.

`python -m lab.train.image.show` writes them to engines/pictograms: image-training.png, .jsonl,
image-sheet.png.
"""

import io
import json
import math

from lab.train.image.evaluate import Asked, load_engine
from lab.train.image.places import ROOT, work
from PIL import Image, ImageDraw

_CARD = ROOT / "engines" / "pictograms"
_WIDE, _HIGH, _MARGIN = 900, 420, 60
_CELL = 192
# Written down before any of them was drawn; none is left out.
_PROMPTS = (
    *("a cat", "一只狗", "りんご", "un coche", "شجرة", "a rocket"),
    *("a blue car", "一朵紫色的花", "a green elephant", "黑色的猫", "a pink house", "金色的钥匙"),
    *("three apples", "五只鸭子", "two bicycles", "七颗星星", "four balloons", "九条鱼"),
    *("a dog to the left of a tree", "猫在椅子上", "a bird above a house", "桌子旁边有一个灯泡"),
    *("a red apple left of a green tree", "苹果、香蕉和葡萄"),
    *("a ship on the sea", "夜空中的月亮", "a camel in the desert", "草地上的一只兔子"),
    *("a white rabbit", "雪人", "a dragon and a castle", "三个红色的气球和一个蛋糕"),
    *("a feline", "汪星人", "something to cut paper with", "会飞的交通工具"),
)


def main() -> None:
    lines = [json.loads(line) for line in work("runs", "pictograms.jsonl").read_text().splitlines()]
    (_CARD / "image-training.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _curve(lines).save(_CARD / "image-training.png", optimize=True)
    _sheet().save(_CARD / "image-sheet.png", optimize=True)


def _curve(lines: list[dict[str, float]]) -> Image.Image:
    """The mean loss of each hundred steps against the looks at each picture, on a logarithmic scale."""
    image = Image.new("RGB", (_WIDE, _HIGH), "white")
    draw = ImageDraw.Draw(image)
    least, most = math.log10(min(line["loss"] for line in lines)), 0.0
    last = max(line["visits"] for line in lines)

    def at(visits: float, loss: float) -> tuple[float, float]:
        along = _MARGIN + (_WIDE - 2 * _MARGIN) * visits / last
        down = _MARGIN + (_HIGH - 2 * _MARGIN) * (most - math.log10(loss)) / (most - least)
        return along, down

    for loss in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005):
        if math.log10(loss) >= least:
            draw.line([at(0, loss), at(last, loss)], fill=(225, 225, 225))
            draw.text((10, at(0, loss)[1] - 6), f"{loss:g}", fill="black")
    for visits in range(0, int(last) + 1, 100):
        draw.text((at(visits, 1)[0] - 8, _HIGH - _MARGIN + 8), str(visits), fill="black")
    draw.line([at(line["visits"], min(1.0, line["loss"])) for line in lines], fill=(30, 90, 200), width=2)
    title = "mean squared error of the predicted picture (variance 1), by looks at each picture"
    draw.text((_MARGIN, 20), title, fill="black")
    return image


def _sheet() -> Image.Image:
    engine = load_engine()
    columns = 6
    rows = -(-len(_PROMPTS) // columns)
    sheet = Image.new("RGB", (columns * _CELL, rows * _CELL), "white")
    for place, prompt in enumerate(_PROMPTS):
        result = engine.run(Asked(prompt, place))
        picture = Image.open(io.BytesIO(result.content)).resize(
            (_CELL - 6, _CELL - 6), Image.Resampling.LANCZOS
        )
        sheet.paste(picture, (place % columns * _CELL + 3, place // columns * _CELL + 3))
        print(prompt, result.metadata["drawn"], result.metadata["warnings"])
    # Flat art needs few colours; the sheet stays small.
    return sheet.quantize(192)


if __name__ == "__main__":
    main()
