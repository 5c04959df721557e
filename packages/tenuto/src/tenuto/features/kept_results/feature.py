"""What kept_results adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="kept_results",
    duties=".keeper:duties",
)
