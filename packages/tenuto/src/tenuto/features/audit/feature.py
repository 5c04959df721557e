"""What audit adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="audit",
    duties=".hourly:duties",
    commands={
        "admin audit": Command(
            "Check that ledger, jobs and stored bytes agree.",
            "tenuto.features.audit.commands",
            after="doctor",
        ),
    },
)
