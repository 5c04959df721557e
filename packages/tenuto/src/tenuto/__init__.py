"""Tenuto: a self-hosted, durable job service for model inference."""
