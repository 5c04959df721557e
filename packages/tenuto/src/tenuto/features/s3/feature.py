"""What s3 adds to the core."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="s3",
    stores={"s3": ".bucket_opening:open_bucket"},
    settings=".settings:BucketSettings",
)
