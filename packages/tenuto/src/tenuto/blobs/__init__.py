"""Blobs: bytes under an id that is used for one write, verified on every read."""
