"""A part of the vibevoice package around a model with random weights."""
