"""Reads of what has been: search and titles of jobs, usage, statistics of the ledger."""
