"""What a kind of job is; which models there are, what they cost, whether they can be called now."""
