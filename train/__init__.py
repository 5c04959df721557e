"""How Tenuto's own models are made. Needs torch, which nothing else here does; see each model's README."""
