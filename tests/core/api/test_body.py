"""Reading bodies: sizes, time, clients that leave. The client is a list of messages behind `receive`."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest

from tenuto.api.body_bytes import ClientGone, RawHeaders, Receive, read_body, stream_body
from tenuto.api.limits import HttpLimits
from tenuto.errors import PayloadTooLarge, RequestTimeout, TenutoError

QUICK = HttpLimits(body_s=0.05, body_bytes_per_s=100)
GONE = {"type": "http.disconnect"}
T = TypeVar("T")


def run(test: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(test, 10))


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


class Client:
    """Gives its messages, the first at once and each other after a pause, then nothing for ever; counts how
    often it was asked."""

    def __init__(self, *messages: dict[str, Any], pause_s: float = 0.0) -> None:
        self.messages = list(messages)
        self.pause_s = pause_s
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        pause_s = self.pause_s if self.asked > 1 else 0
        await asyncio.sleep(pause_s if self.messages else 60)
        return self.messages.pop(0)


async def whole(receive: Receive, headers: RawHeaders = (), limit_bytes: int = 10) -> bytes:
    return await read_body(receive, headers, limit_bytes=limit_bytes, limits=QUICK)


async def streamed(receive: Receive, headers: RawHeaders = (), limit_bytes: int = 10) -> bytes:
    pieces: AsyncIterator[bytes] = stream_body(receive, headers, limit_bytes=limit_bytes, limits=QUICK)
    return b"".join([piece async for piece in pieces])


both = pytest.mark.parametrize("read", [whole, streamed])


@both
def test_a_body_is_all_its_pieces(read: Any) -> None:
    """In one message, in many, empty, or with empty ones between."""
    bodies = [
        run(read(Client(piece(b"0123456789")).receive)),
        run(read(Client(piece(b"01", more=True), piece(b"", more=True), piece(b"23")).receive)),
        run(read(Client(piece(b"01", more=True), piece(b"")).receive)),
        run(read(Client(piece(b"")).receive)),
        run(read(Client({"type": "http.request"}).receive)),
    ]

    assert [b"0123456789", b"0123", b"01", b"", b""] == bodies


@both
def test_a_declared_length_over_the_limit_is_refused_unread(read: Any) -> None:
    """413 at once: nothing is asked of the client, which may still wait for `100 Continue`."""
    client = Client(piece(b"0123456789A"))

    with pytest.raises(PayloadTooLarge):
        run(read(client.receive, [(b"host", b"a"), (b"content-length", b"11")]))
    assert client.asked == 0


@both
@pytest.mark.parametrize(
    "pieces",
    [[piece(b"0123456789A")], [piece(b"01234", more=True), piece(b"56789A", more=True), piece(b"")]],
    ids=["at once", "in pieces"],
)
def test_a_body_without_a_length_is_cut_at_the_limit(read: Any, pieces: list[dict[str, Any]]) -> None:
    """No more is asked for than shows that it is too large."""
    client = Client(*pieces)

    with pytest.raises(PayloadTooLarge):
        run(read(client.receive))
    assert client.asked == min(2, len(pieces))


@both
@pytest.mark.parametrize("before", [[], [piece(b"01", more=True)]], ids=["at once", "after a piece"])
def test_a_client_that_leaves_is_no_end_of_file(read: Any, before: list[dict[str, Any]]) -> None:
    """A body that breaks off never looks whole."""

    with pytest.raises(ClientGone):
        run(read(Client(*before, GONE).receive))


@both
@pytest.mark.parametrize("before", [[], [piece(b"01", more=True)]], ids=["at once", "after a piece"])
def test_a_body_that_stops_times_out(read: Any, before: list[dict[str, Any]]) -> None:
    """408; the task goes on unharmed."""

    async def reads_and_goes_on() -> str:
        with pytest.raises(RequestTimeout):
            await read(Client(*before).receive)
        await asyncio.sleep(0)
        return "unharmed"

    assert run(reads_and_goes_on()) == "unharmed"


@both
def test_a_body_that_drips_times_out(read: Any) -> None:
    """Each piece in time does not make the whole in time: a byte earns a hundredth of a second here."""
    client = Client(*[piece(b"0", more=True)] * 1000, pause_s=0.03)

    with pytest.raises(RequestTimeout):
        run(read(client.receive, limit_bytes=1000))
    assert client.asked < 10


@both
def test_a_body_that_keeps_its_rate_may_take_long(read: Any) -> None:
    """A hundred bytes earn a second, and take less, in all more than is allowed without them."""
    client = Client(*[piece(b"0123456789" * 10, more=True)] * 9, piece(b""), pause_s=0.03)

    assert len(run(read(client.receive, limit_bytes=1000))) == 900


def test_the_time_that_we_take_ourselves_is_not_the_clients() -> None:
    """A slow disk behind an upload does not time the client out."""

    async def slowly() -> bytes:
        body = b""
        pieces = Client(*[piece(b"0", more=True)] * 5, piece(b"0")).receive
        async for part in stream_body(pieces, (), limit_bytes=10, limits=QUICK):
            await asyncio.sleep(0.04)
            body += part
        return body

    assert run(slowly()) == b"000000"


@both
def test_a_cancelled_reader_is_cancelled(read: Any) -> None:
    """A cancellation from outside is no timeout."""

    async def cancels() -> bool:
        task = asyncio.create_task(read(Client().receive))
        await asyncio.sleep(0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        except TenutoError:
            return False
        return False

    assert run(cancels())
