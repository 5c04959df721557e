"""HTTP on sockets: all that knows the inside of uvicorn and httptools. It knows no route."""
