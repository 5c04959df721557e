"""What failover adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="failover",
    commands={
        "admin database": Command(
            "Accept a database that was restored or moved as the one in use.",
            "tenuto.features.failover.commands",
            after="migrate",
        ),
    },
)
