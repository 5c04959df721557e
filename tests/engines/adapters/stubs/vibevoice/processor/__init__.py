"""A stand-in for a part of the vibevoice package."""
