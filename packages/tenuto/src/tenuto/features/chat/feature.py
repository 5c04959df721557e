"""What chat adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="chat",
    needs=("history",),
    entries=".catalog:catalog_entries",
    starting=".left_calls:release_left",
    duties=".duties:duties",
    routes=".routes:routes",
    serving=".chats:serving",
    settings=".settings:ChatSettings",
)
