"""Measurements of quality, each a program: `python -m tests.quality.…`."""

import sys
from pathlib import Path

import tenuto_engine

if (_tests := str(Path(__file__).parents[1])) not in sys.path:
    sys.path.append(_tests)  # what the tests share is imported from here, as pytest does

# Importing it keeps the libraries that are measured here from reporting anything.
assert tenuto_engine
