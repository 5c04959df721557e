"""Weights: the manifest of what the engines read, the cache where it lies, pull and verify."""

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
