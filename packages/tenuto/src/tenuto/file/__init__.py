"""Artifacts and their bytes: what callers see, the rows of both, the stores, and how bytes are erased."""
