"""What recognition adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="recognition",
    needs=("decoding",),
    kind=".kind:KIND",
    erase=".live_text:erase",
    duties=".duties:duties",
    settings=".settings:RecognitionSettings",
)
