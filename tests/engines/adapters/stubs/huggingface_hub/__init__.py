"""A stand-in for the hub's client."""
