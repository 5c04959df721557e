"""Speech: a text, and perhaps voices, become a WAV."""
