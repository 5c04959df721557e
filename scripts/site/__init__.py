"""Builds the documentation site from docs/, in English and Chinese; `make docs` runs it."""
