"""What studio adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

_COMMANDS = "tenuto.features.studio.commands"

FEATURE = Feature(
    name="studio",
    needs=("evidence", "history", "models", "webhooks"),
    commands={
        "admin accounts invite": Command("Print a link with which a person sets a password.", _COMMANDS),
        "admin accounts suspend": Command(
            "End the account's sessions and refuse its keys.", _COMMANDS, after="invite"
        ),
        "admin accounts unsuspend": Command("Let a suspended account in again.", _COMMANDS, after="suspend"),
    },
    serving=".app:StudioPart",
    announce=".invitations:first_steps",
    settings=".settings:StudioSettings",
)
