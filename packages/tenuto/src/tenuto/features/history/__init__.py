"""Reads of what has been: searches of jobs, usage, statistics."""
