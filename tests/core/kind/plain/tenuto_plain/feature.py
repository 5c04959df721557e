"""The fakes as a stranger's feature: `tests.without_features` puts a copy of them into this package."""

from tenuto.feature import Feature

FEATURE = Feature(
    name="fakes",
    package="tenuto_plain",
    engines=".fakes.entries:fakes",
    settings=".settings:PlainSettings",
)
