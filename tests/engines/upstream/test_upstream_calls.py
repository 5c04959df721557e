"""What a call's loss means: for a server that charges, nothing is ever asked twice; another is waited for."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines.upstream.calling import Asked, engine, image, speech
from servers.media_upstream import KEY, PRIVATE, MediaUpstream
from servers.proxy import Proxy, Towards
from servers.speed import HANG_S, at_least
from tenuto.config import Settings
from tenuto_engine import Cancelled, EngineError, OutcomeUnknown
from tenuto_remote import call


@pytest.fixture
def upstream() -> Iterator[MediaUpstream]:
    server = MediaUpstream()
    yield server
    server.close()


LOST = (
    "status=500",
    "close",
    "cut",
    "short",
    "html",
    "silent",
    "endless",
    "giant",
    "status=503",
    "status=408",
)


@pytest.mark.parametrize("fault", LOST)
def test_a_metered_call_that_may_have_been_carried_out_is_doubtful_and_made_once(
    upstream: MediaUpstream, fault: str
) -> None:
    """Cut, refused by a broken server or answered with nonsense: charged, perhaps; never sent again (P10)."""
    upstream.faults.append(fault)
    with pytest.raises(OutcomeUnknown) as caught:
        engine("openai-speech", upstream.url, metered=True, patience_s=60).run(Asked(speech()))

    assert 1 == len(upstream.asked)
    assert PRIVATE not in str(caught.value)


@pytest.mark.parametrize(
    ("metered", "fault", "transient"),
    [
        *((True, refused, False) for refused in ("status=400", "status=401", "status=429", "redirect")),
        *((False, lost, True) for lost in ("status=502", "close", "cut")),
        *((False, nonsense, False) for nonsense in ("nan", "short", "endless", "status=422")),
    ],
)
def test_a_call_that_charges_nobody_is_a_failure(
    upstream: MediaUpstream, metered: bool, fault: str, transient: bool
) -> None:
    """Refused, nothing ran: the hold goes back. A free one that is lost may be tried again by the service,
    not by the engine; after nonsense the same again would give the same (P10)."""
    upstream.faults.append(fault)
    with pytest.raises(EngineError) as caught:
        engine("openai-speech", upstream.url, metered=metered, patience_s=60 * metered).run(Asked(speech()))

    assert (1, transient) == (len(upstream.asked), caught.value.transient)
    assert PRIVATE not in caught.value.message


def test_a_refusal_after_a_part_that_was_charged_is_doubtful(upstream: MediaUpstream) -> None:
    """A text of two calls, the second of which is refused: the first was paid for (P10)."""
    upstream.faults += ["", "status=400"]
    server = engine("openai-speech", upstream.url, "options.max_input_characters = 9", metered=True)
    with pytest.raises(OutcomeUnknown, match="after it was called 1 times"):
        server.run(Asked(speech("One two. Three four.")))

    assert [("One two. ", "attempt_1-0"), ("Three ", "attempt_1-1")] == [
        (asked.body["input"], asked.idempotency_key) for asked in upstream.asked
    ]


def test_a_free_server_that_is_busy_is_waited_for(upstream: MediaUpstream) -> None:
    """429 and 503 say "later": as long as they ask, and the run says that it lives."""
    upstream.faults += ["busy=1", "status=503"]
    run = Asked(speech())
    with at_least(2):
        result = engine("openai-speech", upstream.url, patience_s=120).run(run)

    assert ("audio/wav", 3) == (result.media_type, len(upstream.asked))
    assert len(run.steps) > 1


def test_a_server_that_is_away_is_waited_for_as_long_as_the_operator_says() -> None:
    """Nothing was sent, so a metered engine waits as well; then the job fails, and may be tried again."""
    server = MediaUpstream()
    server.close()
    for metered in (True, False):
        with at_least(0.4), pytest.raises(EngineError, match="does not answer") as caught:
            engine("openai-speech", server.url, metered=metered, patience_s=1).run(Asked(speech()))

        assert caught.value.transient


LINKS: dict[str, tuple[Callable[[Proxy], Any], int]] = {
    "the request is lost": (lambda link: link.cut_at(b"POST ", Towards.SERVER), 0),
    "the answer is cut in its head": (lambda link: link.cut_after(20, Towards.CLIENT), 1),
    "the answer does not come": (lambda link: link.stall(Towards.CLIENT), 1),
}


@pytest.mark.parametrize("fault", LINKS)
def test_a_link_that_breaks_leaves_a_metered_call_in_doubt(upstream: MediaUpstream, fault: str) -> None:
    """Once anything was sent, nobody here can know what became of it (P10)."""
    link = Proxy(("127.0.0.1", upstream.port))
    hurt, calls = LINKS[fault]
    try:
        server = engine(
            "openai-speech", f"http://127.0.0.1:{link.port}/v1", "options.timeout_s = 1", metered=True
        )
        hurt(link)
        with pytest.raises(OutcomeUnknown):
            server.run(Asked(speech()))

        assert calls == len(upstream.asked)
    finally:
        link.close()


def _full_queue(stack: ExitStack) -> str:
    """The address of a server whose queue of connections is full: a further one is not answered."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(2):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def _silent_tls(stack: ExitStack) -> str:
    """The address of a server that takes the connection and does not take part in TLS."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return f"https://127.0.0.1:{listener.getsockname()[1]}/v1"


def _slow_name(stack: ExitStack) -> str:
    """An address whose name nobody looks up before the test is over."""
    answered = threading.Event()
    stack.callback(answered.set)
    found = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "models.example":
            answered.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return found(host, *rest, **more)

    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(socket, "getaddrinfo", look_up)
    return "http://models.example/v1"


UNCONNECTED = {"a full queue": _full_queue, "a handshake without answer": _silent_tls, "a name": _slow_name}


@pytest.mark.parametrize("where", UNCONNECTED)
def test_a_run_is_cancelled_at_once_while_it_connects(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel does not wait for a name, a connection or TLS: the host is not killed for it."""
    monkeypatch.setattr(call, "CONNECT_S", 60.0)
    with ExitStack() as stack:
        server = engine("openai-image", UNCONNECTED[where](stack))
        with pytest.raises(Cancelled):
            server.run(Asked(image(), cancel_after_s=0.3))


@pytest.mark.parametrize("where", UNCONNECTED)
def test_a_connection_is_waited_for_a_few_seconds_in_all(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, connection and TLS share one limit, below the grace; nothing was sent, so nothing is in doubt."""
    assert call.CONNECT_S + 1.5 < Settings(folder=Path("x")).host_grace_s
    monkeypatch.setattr(call, "CONNECT_S", 0.3)
    with ExitStack() as stack:
        server = engine("openai-image", UNCONNECTED[where](stack), metered=True)
        with pytest.raises(EngineError, match="does not answer") as caught:
            server.run(Asked(image()))

        assert caught.value.transient


def test_a_call_that_is_given_up_while_it_connects_is_never_sent(
    upstream: MediaUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is found after the run has ended: the request that nobody wants does not leave."""
    found, asked_for, answered = socket.getaddrinfo, threading.Event(), threading.Event()

    def look_up(*rest: Any, **more: Any) -> Any:
        asked_for.set()
        answered.wait()
        return found(*rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(Cancelled):
        engine("openai-image", upstream.url, metered=True).run(Asked(image(), cancel_after_s=0.2))
    thread = next(thread for thread in threading.enumerate() if thread.name == "upstream")
    answered.set()
    thread.join(HANG_S)

    assert (True, False, []) == (asked_for.is_set(), thread.is_alive(), upstream.asked)


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes in a variable, which is taken out of the process; a wrong one is said to be one (P16)."""
    server = MediaUpstream(key=KEY)
    try:
        monkeypatch.setenv("UPSTREAM_KEY", KEY)
        speaking = engine("openai-speech", server.url)
        assert "audio/wav" == speaking.run(Asked(speech())).media_type
        with pytest.raises(
            EngineError, match=r"401 \(invalid_api_key\): it does not accept our key"
        ) as caught:
            engine("openai-speech", server.url).run(Asked(speech()))

        assert [f"Bearer {KEY}", None] == [asked.key for asked in server.asked]
        assert {"attempt_1-0"} == {asked.idempotency_key for asked in server.asked}
        assert KEY not in f"{speaking.info}{caught.value}"
    finally:
        server.close()
