"""Backups: the records of one moment and the bytes that they refer to, in one complete folder or none."""
