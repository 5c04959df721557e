"""What mcp adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="mcp",
    needs=("chat", "openai"),
    routes=".routes:routes",
    serving=".routes:serving",
)
