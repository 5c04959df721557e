"""Tests of the SDK and the callers' commands."""
