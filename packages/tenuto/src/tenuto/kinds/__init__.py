"""Kinds of work: what each takes and the rules of its parameters."""
