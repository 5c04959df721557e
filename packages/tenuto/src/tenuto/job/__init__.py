"""The durable job: accepted once, run by fenced attempts, ended once."""
