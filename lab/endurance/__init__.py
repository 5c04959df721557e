"""Endurance: hours of mixed load without a fault, in pieces, and whether anything grows."""

from lab import shared as shared
