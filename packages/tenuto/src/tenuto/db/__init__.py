"""The database: operations run in it as plain functions on a transaction, on SQLite or PostgreSQL alike."""
