"""Engines: models as functions, each living in a host process of its own."""
