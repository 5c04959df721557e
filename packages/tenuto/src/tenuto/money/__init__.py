"""Money: pre-authorised holds, settlements and voids in a double-entry ledger."""
