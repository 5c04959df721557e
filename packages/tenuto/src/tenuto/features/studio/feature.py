"""What studio adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="studio",
    needs=("evidence", "history", "models"),
    serving=".app:StudioPart",
    announce=".invitations:first_steps",
)
