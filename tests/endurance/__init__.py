"""Endurance: hours of mixed load without a fault, in pieces, and whether anything grows."""
