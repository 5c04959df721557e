"""HTTP on sockets: everything that knows the internals of uvicorn and httptools. It knows no routes."""
