"""What mcp adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="mcp",
    needs=("chat", "openai", "renditions"),
    routes=".routes:routes",
    serving=".routes:serving",
    settings=".settings:McpSettings",
)
