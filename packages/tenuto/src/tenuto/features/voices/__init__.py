"""Voices: fixed recordings with ids, and which of them an account prefers."""
