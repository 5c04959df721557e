"""The core's HTTP server, as it is without the feature that guards its connections."""

import threading
from typing import Any

import httpx2

from servers.speed import HANG_S
from tenuto.api.server import Server, configuration, listen


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({"type": message["type"] + ".complete"})
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def test_it_answers_until_it_is_asked_to_stop() -> None:
    ready = threading.Event()
    server = Server(configuration(app, grace_s=1), listen("127.0.0.1", 0), lambda _: ready.set())
    began_at = server.swept_at
    thread = threading.Thread(target=server.run)
    thread.start()
    assert ready.wait(HANG_S)
    [(host, port)] = server.addresses
    answer = httpx2.get(f"http://{host}:{port}/")
    server.should_exit = True
    thread.join(HANG_S)

    assert 204 == answer.status_code
    assert began_at < server.swept_at
    assert not thread.is_alive()
