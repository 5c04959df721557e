"""Lies that the service's answers tell, one at a time: which test of the contract notices each of them?"""

from lab import shared as shared
