"""The audit: ledger, jobs, contents and stored bytes agree."""
