"""`tenuto draw`: a text becomes a PNG file."""

from __future__ import annotations

import argparse
import re

from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser, add_work, checked
from tenuto_client.commands.words import t


def add(parser: Parser, verb: str) -> None:
    """Its options."""
    parser.add_argument(
        "prompt", metavar="PROMPT", help=t("what the image should show, in a language that the model knows")
    )
    group = parser.add_argument_group(t("result"))
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=t("the output file; - for stdout (default: named after the job)"),
    )
    group.add_argument("--size", type=checked(size), metavar="WxH", help=t("pixels, for example 512x512"))
    group.add_argument("--seed", type=int, metavar="N", help=t("the same seed gives the same image"))
    group.add_argument("--steps", type=int, metavar="N", help=t("1 to 100; more steps take longer"))
    group.add_argument(
        "--guidance", type=float, metavar="X", help=t("0 to 20: how closely the image follows the prompt")
    )
    add_work(parser, "docs/images.md")
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Draw."""
    from tenuto_client.commands import work

    parameters = {**dict(options.parameters), "prompt": options.prompt}
    if options.size is not None:
        parameters["width"], parameters["height"] = options.size
    named = {"seed": options.seed, "num_inference_steps": options.steps, "guidance_scale": options.guidance}
    parameters |= {name: value for name, value in named.items() if value is not None}
    purpose = work.purpose_of("draw", options.output)
    entry, reading = work.carry_out(console, "image", options, parameters, purpose)
    return work.finish(console, entry, reading)


def size(text: str) -> tuple[int, int]:
    """`512x768` as width and height."""
    found = re.fullmatch(r"(\d{1,5})[x×*](\d{1,5})", text)
    if found is None:
        raise ValueError(t("write WIDTHxHEIGHT, for example 512x512"))
    return int(found[1]), int(found[2])
