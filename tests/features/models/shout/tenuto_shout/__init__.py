"""A kind of job that Tenuto has never heard of, and an engine for it: texts in capitals, with a price."""
