"""Voices: fixed recordings under ids, and which of them an account prefers."""
