"""Recognition: a recording becomes a transcript."""
