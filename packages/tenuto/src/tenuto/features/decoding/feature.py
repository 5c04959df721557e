"""What decoding adds to the core: nothing; other features build on it."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="decoding",
)
