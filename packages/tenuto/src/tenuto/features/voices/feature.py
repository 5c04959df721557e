"""What voices adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="voices",
    needs=("decoding",),
    routes=".routes:routes",
    serving=".installing:Voices",
    commands={
        "admin voices": Command(
            "List all voices, and import voices for every account.",
            "tenuto.features.voices.commands",
            after="adapters",
        ),
    },
)
