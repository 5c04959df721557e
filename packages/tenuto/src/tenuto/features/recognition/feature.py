"""What recognition adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="recognition",
    kind=".kind:KIND",
    duties=".duties:duties",
)
