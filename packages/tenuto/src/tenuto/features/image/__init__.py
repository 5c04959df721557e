"""Images: a prompt becomes a PNG."""
