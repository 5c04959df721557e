"""What fakes adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="fakes",
    engines=".entries:fakes",
)
