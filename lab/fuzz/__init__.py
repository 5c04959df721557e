"""Fuzzing of the parsers that are our own: any bytes, and files of the corpora with some bytes changed."""

from lab import shared as shared
