"""The models that an operator runs: weights, models added by name, adapters of others."""
