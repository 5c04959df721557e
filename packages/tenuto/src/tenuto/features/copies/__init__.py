"""Knowing which copy of the database is in use, after a failover or a restore; with PostgreSQL only."""
