"""The HTTP edge: authenticates, parses, passes operations to the database, and answers with the outcome."""
