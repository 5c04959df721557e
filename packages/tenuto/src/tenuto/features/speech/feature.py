"""What speech adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="speech",
    needs=("decoding", "voices"),
    kind=".kind:KIND",
    settings=".settings:SpeechSettings",
)
