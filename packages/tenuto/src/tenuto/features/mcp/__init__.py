"""Tools for assistants over HTTP, at `/mcp`."""
