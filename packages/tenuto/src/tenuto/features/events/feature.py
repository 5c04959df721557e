"""What events adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="events",
    needs=("chat",),
    routes=".routes:routes",
    serving=".live_events:serving",
)
