"""The SDK and the caller's verbs."""
