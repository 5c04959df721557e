"""The fault campaign: a service under mixed load, faults drawn from a seed, and a checker after each life."""

from lab import shared as shared
