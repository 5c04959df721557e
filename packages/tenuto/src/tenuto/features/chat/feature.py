"""What chat adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="chat",
    needs=("history", "models"),
    duties=".duties:duties",
)
