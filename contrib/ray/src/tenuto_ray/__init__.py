"""Engines in a Ray pool: the driver that a worker starts, and the actor that it starts on a node."""
