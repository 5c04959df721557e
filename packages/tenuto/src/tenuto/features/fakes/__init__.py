"""Engines for tests and trials: they are labelled as fakes and never stand beside real ones."""
