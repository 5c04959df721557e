"""What webhooks adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="webhooks",
    needs=("events",),
    duties=".delivery_loop:duties",
    routes=".routes:routes",
    settings=".settings:WebhookSettings",
)
