"""What copies adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="copies",
    commands={
        "admin database": Command(
            "Accept a database that was restored or moved as the one in use.",
            "tenuto.features.copies.commands",
            after="migrate",
        ),
    },
)
