"""Many machines on this one, under load and under blows."""

from lab import shared as shared
