"""What image adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="image",
    kind=".kind:KIND",
    settings=".settings:ImageSettings",
)
