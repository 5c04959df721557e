"""Keeping paid results while the store of bytes takes nothing: in the database, or else in a file."""
