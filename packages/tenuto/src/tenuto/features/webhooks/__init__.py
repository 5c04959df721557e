"""Informing callers' own servers of what happened, by the Standard Webhooks specification."""
