"""Faults that are seeded on purpose, to see that the tests would notice them."""

from lab import shared as shared
