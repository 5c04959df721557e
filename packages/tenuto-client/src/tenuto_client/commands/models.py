"""`tenuto models`: the models that the key may use."""

from __future__ import annotations

import argparse

from tenuto_client import reads
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, verb: str) -> None:
    """Its options."""
    parser.add_argument(
        "--kind", choices=("speech", "recognition", "image", "chat"), help=t("only models of this kind")
    )
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """List them."""
    found = [m for m in console.run(reads.models(console.link)) if options.kind in (None, m.kind)]
    if console.as_json:
        console.document([dict(model.raw) for model in found])
        return 0
    rows = [
        (
            model.id,
            model.kind,
            t("yes") if model.callable else t("no: {why}", why=model.callable_reason),
            f"{model.pricing.get('price')} {model.pricing.get('currency')} / {model.pricing.get('unit')}",
            ",".join(model.languages),
        )
        for model in found
    ]
    console.table(("model", "kind", "callable", "price", "languages"), rows)
    return 0
