"""What http_guard adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="http_guard",
    serving=".server:serving",
)
