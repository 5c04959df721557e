"""The catalog: which models there are, what they cost, and whether they can be called now."""
