"""What happens to an account's jobs, as a feed that callers read, wait for or receive live."""
