"""A stand-in for indextts25-inference 0.2.0."""
