"""Renditions: stored results in other formats."""
