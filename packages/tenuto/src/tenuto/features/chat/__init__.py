"""Chats and embeddings: the models that answer, their queues, and what is recorded about each call."""
