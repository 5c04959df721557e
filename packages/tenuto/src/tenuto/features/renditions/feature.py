"""What renditions adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="renditions",
    needs=("decoding",),
    routes=".routes:routes",
    serving=".renderers:Renderers",
    settings=".settings:RenditionSettings",
)
