"""What openai adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="openai",
    needs=("chat", "decoding", "recognition", "renditions", "voices"),
    routes=".routes:routes",
    serving=".requests:serving",
    settings=".settings:OpenAISettings",
)
