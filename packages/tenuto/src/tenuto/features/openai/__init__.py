"""OpenAI's routes for audio and images, a second way to submit jobs; and for responses and embeddings."""
