"""Crashes: real processes, real kills, on both databases."""
