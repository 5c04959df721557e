"""What telemetry adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="telemetry",
    needs=("audit", "events"),
    serving=".api_metrics:serving",
)
