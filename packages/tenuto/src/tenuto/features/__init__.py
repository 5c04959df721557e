"""What the promise can do without: each feature in a folder of its own, which may import all of the core."""
