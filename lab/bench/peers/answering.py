"""The loop of a program that `bench.libraries` measures: loaded, it writes a line; then an answer to each.

Requests and answers are JSON objects. It uses the standard library alone: it runs in several environments.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def answer(load: Callable[[dict[str, Any]], Answer]) -> None:
    """Load with the options that are the program's argument, then answer until standard input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # a library may print
        run = load(json.loads(sys.argv[1]))
        answers.write("{}\n")
        answers.flush()
        for line in sys.stdin:
            answers.write(json.dumps(run(json.loads(line))) + "\n")
            answers.flush()
