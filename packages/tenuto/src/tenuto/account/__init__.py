"""Accounts and API keys: who calls, who pays, and which models they may use."""
