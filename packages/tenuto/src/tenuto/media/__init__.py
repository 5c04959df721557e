"""Media as pure functions on bytes and samples."""
