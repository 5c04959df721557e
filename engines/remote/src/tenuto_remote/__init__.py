"""Engines whose models run on other servers, behind OpenAI's interfaces: speech, transcriptions, images."""
