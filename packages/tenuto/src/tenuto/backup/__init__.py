"""Backups: the records of one moment and the bytes that they refer to, in a folder that is whole, or none."""
