"""What evidence adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="evidence",
    commands={
        "admin evidence": Command(
            "Show everything that is recorded about a job.",
            "tenuto.features.evidence.commands",
            after="recover",
        ),
    },
)
