"""Artifacts: what callers see of stored bytes, and the rows of the bytes themselves."""
