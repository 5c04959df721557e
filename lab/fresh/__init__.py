"""Installations and images in a bare Debian."""

from lab import shared as shared
