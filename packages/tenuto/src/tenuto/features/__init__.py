"""The features, one folder each: what the promise can do without. See `tenuto.feature` for what one is."""
