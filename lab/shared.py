"""What the laboratories borrow of the tests: `servers`, with its services, databases and callers.

Importing it puts the folder of the tests where Python looks, and keeps the libraries that are measured from
reporting anything.
"""

import sys
from pathlib import Path

import tenuto_engine

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"

assert tenuto_engine
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))
