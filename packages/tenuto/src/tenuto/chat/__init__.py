"""Chat completions: the models that answer, their queues, and what is recorded of each call."""
