"""What models adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

COMMANDS = "tenuto.features.models.commands"
ADDITIONS = "tenuto.features.models.addition_commands"
PULL = Command("Download and verify the weights of the models that this machine runs.", COMMANDS)

FEATURE = Feature(
    name="models",
    needs=("chat", "decoding"),
    entries=".adapters:catalog_entries",
    weights=".cache:is_verified",
    starting=".commands:pull_missing",
    commands={
        "admin models": Command(
            "List the models, add more, and verify their weights.", COMMANDS, after="keys"
        ),
        "admin models add": Command("Download, test and enable a model by its name.", ADDITIONS),
        "admin models remove": Command("Disable a model that was added, and delete its weights.", ADDITIONS),
        "admin models pull": PULL,
        "admin adapters": Command(
            "List engines that can be added, or print the settings for one.",
            "tenuto.features.models.adapter_commands",
            after="models",
        ),
        "models pull": PULL,
    },
)
