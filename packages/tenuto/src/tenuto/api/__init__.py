"""The HTTP edge: authenticates, parses, hands operations to the database, and says what came of it."""
