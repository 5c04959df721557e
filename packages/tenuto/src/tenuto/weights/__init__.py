"""Weights: the manifest of what engines read, the cache that holds it, pulling and verifying."""

from tenuto.weights.cache import Problem, default_cache, is_verified, location, verify
from tenuto.weights.manifest import Manifest, Weight
from tenuto.weights.pull import Progress, Stage, WeightsUnavailable, pull

__all__ = [
    "Manifest",
    "Problem",
    "Progress",
    "Stage",
    "Weight",
    "WeightsUnavailable",
    "default_cache",
    "is_verified",
    "location",
    "pull",
    "verify",
]
