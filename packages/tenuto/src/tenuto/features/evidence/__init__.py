"""Evidence: everything that is recorded about one job."""
