"""What history adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="history",
    routes=".routes:routes",
)
