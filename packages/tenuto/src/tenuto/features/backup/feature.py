"""What backup adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="backup",
    duties=".duties:duties",
    commands={
        "admin backup": Command(
            "Back up records and stored bytes while the service runs.",
            "tenuto.features.backup.commands",
            after="evidence",
        ),
        "admin restore": Command(
            "Restore a backup into an empty service.", "tenuto.features.backup.commands", after="backup"
        ),
    },
)
