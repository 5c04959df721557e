"""Benchmarks: the running service beside its limits, in one table. `python -m bench` from the checkout.

It starts the service and the databases as the tests do, so it borrows their folder `tests/servers`.
"""

import sys
from pathlib import Path

import tenuto_engine

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

# Importing it keeps the libraries that are measured here from reporting anything.
assert tenuto_engine
