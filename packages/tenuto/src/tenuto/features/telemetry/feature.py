"""What telemetry adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="telemetry",
    needs=("audit", "events"),
    observe=".exporting:observe",
    duties=".worker:duties",
    serving=".api_metrics:serving",
    settings=".settings:TelemetrySettings",
)
