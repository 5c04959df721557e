"""The operator's side of knowing which copy of the database is in use; with PostgreSQL only."""
