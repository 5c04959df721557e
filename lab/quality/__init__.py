"""Measurements of quality, each a program: `python -m lab.quality.…`."""

from lab import shared as shared
