"""A stand-in for the package of IndexTTS-2.5's makers."""
