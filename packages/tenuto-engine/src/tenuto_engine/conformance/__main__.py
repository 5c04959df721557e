"""`python -m tenuto_engine.conformance PACKAGE`: every check on every engine of an installed package.

Exits with 1 if a check fails, and with 2 if there is nothing to examine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tenuto_engine.conformance.checks import examine
from tenuto_engine.conformance.subject import NotASubject, Subject, subjects


def main(arguments: list[str]) -> int:
    """Run it; the exit status."""
    options = _parser().parse_args(arguments)
    more: dict[str, Any] = {}
    for name in ("parameters", "long_parameters"):
        more |= {name: getattr(options, name)} if getattr(options, name) else {}
    if options.recording:
        more["inputs"] = {"audio": Path(options.recording).read_bytes()}
    try:
        engines = subjects(
            options.target,
            interpreter=options.interpreter,
            weights=Path(options.weights) if options.weights else None,
            options=dict(options.option),
            **more,
        )
    except (NotASubject, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    failed = sum(_examine(name, subject) for name, subject in engines.items())
    return 1 if failed else 0


def _examine(name: str, subject: Subject) -> int:
    """Run all checks and write a line for each; how many failed."""
    sys.stdout.write(f"{name} ({subject.kind}, {subject.engine})\n")
    failed = 0
    for verdict in examine(subject):
        word = "FAILED " if verdict.fault else "skipped" if verdict.skipped else "passed "
        why = verdict.fault or verdict.skipped
        line = f"  {word} {verdict.check.__name__} {verdict.seconds:.1f} s"
        sys.stdout.write(f"{line}: {why}\n" if why else f"{line}\n")
        sys.stdout.flush()
        failed += bool(verdict.fault)
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tenuto_engine.conformance", description=__doc__)
    parser.add_argument("target", help="a package such as tenuto_morse, or the name of an entry point")
    parser.add_argument("--interpreter", default=sys.executable, help="the Python that has the engine")
    parser.add_argument(
        "--weights", default="", help="the folder that has the weights of the manifest, each under its name"
    )
    parser.add_argument(
        "--option",
        action="append",
        type=_pair,
        default=[],
        help="NAME=VALUE for the engine; VALUE may be JSON",
    )
    parser.add_argument(
        "--parameters", type=json.loads, help="JSON: replaces parameters of the suite in every run"
    )
    parser.add_argument(
        "--long-parameters", type=json.loads, help="JSON: makes a run last until it can be cancelled"
    )
    parser.add_argument("--recording", default="", help="recognition: a file of PCM16, mono, 16 kHz")
    return parser


def _pair(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
