"""Blobs: bytes under an id that is used for one write, checked whenever they are read."""
