"""A feature that Tenuto has never heard of: it writes down what it is told."""
