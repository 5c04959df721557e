"""What chat adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="chat",
    needs=("history", "models"),
    routes=".routes:routes",
    serving=".chats:serving",
)
