"""Tenuto as tools of an assistant (Model Context Protocol). It knows the SDK, and no code of the service."""
