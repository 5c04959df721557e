"""The fakes as a stranger's feature: `tests.without_features` puts a copy of them into this package."""

from tenuto.feature import Feature

FEATURE = Feature(name="fakes", engines="tenuto_plain.fakes.entries:fakes")
