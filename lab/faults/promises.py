"""What the service promises, and the tests that try to break it: their docstrings name the promises."""

import ast
import re
from collections import Counter
from functools import cache

from lab.shared import ROOT, TESTS

PROMISES: dict[str, str] = {
    "P1": "accepted means durable: after a 202 the job outlives any crash",
    "P2": "one key, one operation, under any concurrency, for ever",
    "P3": "at most one charge a job, never above its hold, in the transaction that sets `succeeded`",
    "P4": "no overdraft: what is available is never negative",
    "P5": "`succeeded` means that the bytes are there, durable and hashed",
    "P6": "never wrong bytes: a transfer matches size and SHA-256, or fails visibly",
    "P7": "artifacts, segments and voices are written once",
    "P8": "a final state never changes; only listed transitions occur, each an event",
    "P9": "a dead or late worker changes nothing",
    "P10": "no second paid run unless an operator says so by name",
    "P11": "segments: in order, once each, kept, never billed",
    "P12": "other accounts' ids answer like ids that do not exist",
    "P13": "no path starts, lists, cancels or erases work on a model outside a key's restriction",
    "P14": "memory, disk, time and connections of a request are bounded",
    "P15": "authentication before the body",
    "P16": "no secret in logs, URLs, metrics or errors",
    "P17": "no call to an address that a caller names",
    "P18": "no call outside by default",
    "P19": "a restart is boring: ready in 5 s with 10,000 queued jobs; SIGTERM loses nothing",
    "P20": "leases and deadlines survive clock jumps",
    "P21": "upgrade, backup and restore keep P1 to P9",
}

NAMES = ("test_*.py", "measured_*.py")
_NAMED = re.compile(r"\bP(\d{1,2})(?: to P(\d{1,2}))?\b")


@cache
def tests() -> dict[str, Counter[str]]:
    """By promise: the files whose tests name it, and how many of each file do."""
    found: dict[str, Counter[str]] = {promise: Counter() for promise in PROMISES}
    folders = (TESTS, ROOT / "lab" / "limits")
    for path in sorted(each for one in folders for name in NAMES for each in one.rglob(name)):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for promise in _named(ast.get_docstring(node) or ""):
                    found[promise][path.relative_to(TESTS.parent).as_posix()] += 1
    return found


def _named(docstring: str) -> set[str]:
    named: set[str] = set()
    for first, last in _NAMED.findall(docstring):
        named.update(f"P{number}" for number in range(int(first), int(last or first) + 1))
    return named & set(PROMISES)
