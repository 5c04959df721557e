"""What help adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="help",
    needs=("audit", "decoding", "models", "renditions", "s3", "studio"),
    console=".console:extend",
    commands={
        "admin doctor": Command(
            "Check everything that the service needs to run.", "tenuto.features.help.doctor", after="voices"
        ),
        "uninstall": Command(
            "Show what lies where on this machine, and remove it.", "tenuto.features.help.uninstall"
        ),
    },
)
