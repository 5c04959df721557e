"""The simplest server of speech that somebody would write: the engine behind a lock, and nothing kept.

Run as a process: its argument is the parameters of a job as JSON, without the text; it prints its port. It
answers `POST /v1/audio/speech` as WAV, by the same engine, weights and options as the service.
"""

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from lab.bench.overhead import direct_engine
from lab.bench.own_engine import DirectRun


def main(parameters: dict[str, Any]) -> None:
    """Serve until SIGTERM."""
    engine, turn = direct_engine(), asyncio.Lock()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        run = DirectRun(parameters | {"text": json.loads(body)["input"]})
        async with turn:
            result = await asyncio.to_thread(engine.run, run)
        headers = [(b"content-type", b"audio/wav"), (b"content-length", b"%d" % len(result.content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": result.content})

    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, loop="uvloop", http="httptools", lifespan="off", log_level="warning")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
