"""Worlds of the simulation at length, and the smallest plan that breaks a promise."""

from lab import shared as shared
