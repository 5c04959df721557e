"""The minimum that an ASGI server can do: one answer to everything, through uvicorn, uvloop and httptools.

Run as a process: its argument names a file with the whole answer; it prints its port.
"""

import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn


def main(path: str) -> None:
    """Serve until SIGTERM."""
    head, _, body = Path(path).read_bytes().partition(b"\r\n\r\n")
    fields = [line.partition(b": ")[::2] for line in head.split(b"\r\n")[1:]]
    # uvicorn adds the date itself, as it does for the service.
    headers = [(name, value) for name, value in fields if name.lower() != b"date"]
    start = {"type": "http.response.start", "status": int(head[9:12]), "headers": headers}
    rest = {"type": "http.response.body", "body": body}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start)
        await send(rest)

    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        server_header=False,
        log_level="warning",
    )
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main(sys.argv[1])
