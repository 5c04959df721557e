"""Pictures of the studio and of a terminal, for the documentation: `make pictures`."""

from lab import shared as shared
