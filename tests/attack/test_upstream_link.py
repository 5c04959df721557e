"""The link to a chat upstream breaks: one call is one call there, and never half an answer here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from servers.proxy import Proxy, Towards
from servers.service import RunningService
from servers.upstream import UpstreamServer

TIMEOUT_S = 1
SETTINGS = """
[models."there/chat"]
upstream = "http://127.0.0.1:{port}/v1"
"""


@dataclass(frozen=True)
class Chatting:
    """A service, the upstream that it calls, and the link between them."""

    http: httpx2.Client
    upstream: UpstreamServer
    link: Proxy

    def ask(self, text: str = "Hold.", *, stream: bool = False) -> httpx2.Response:
        said = {"model": "there/chat", "messages": [{"role": "user", "content": text}], "stream": stream}
        return self.http.post("/v1/chat/completions", json=said)

    def calls(self) -> int:
        return len(self.upstream.seen.bodies)


@pytest.fixture(scope="module")
def module_chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatting]:
    folder = tmp_path_factory.mktemp("chatting")
    upstream = UpstreamServer()
    link = Proxy(("127.0.0.1", upstream.port))
    (folder / "tenuto.toml").write_text(SETTINGS.format(port=link.port))
    variables = {"TENUTO_CONFIG": str(folder / "tenuto.toml"), "TENUTO_CHAT_TIMEOUT_S": str(TIMEOUT_S)}
    service = RunningService(folder / "data", variables=variables)
    service.start()
    service.key = service.make_key()
    with service.client() as http:
        yield Chatting(http, upstream, link)
    service.stop()
    link.close()
    upstream.close()


@pytest.fixture
def chatting(module_chatting: Chatting) -> Iterator[Chatting]:
    """All is well before the test, and after it."""
    yield module_chatting
    module_chatting.link.pass_on()
    assert module_chatting.ask().status_code == 200


FAULTS: dict[str, tuple[Callable[[Proxy], Any], int]] = {
    "the request is lost": (lambda link: link.cut_at(b"POST ", Towards.SERVER), 0),
    "the answer is lost": (lambda link: link.cut_at(b"HTTP/1.1 200", Towards.CLIENT), 1),
    "the answer is cut in its head": (lambda link: link.cut_after(20, Towards.CLIENT), 1),
    "the answer is cut in its body": (lambda link: link.cut_at(b"finish_reason", Towards.CLIENT), 1),
    "the answer ends early": (lambda link: link.cut_after(300, Towards.CLIENT), 1),
    "the answer does not come": (lambda link: link.stall(Towards.CLIENT), 1),
    "the request does not arrive": (lambda link: link.stall(Towards.SERVER), 0),
}
"""What breaks, how, and how many calls the upstream has seen then."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_that_breaks_is_503_and_made_once(chatting: Chatting, fault: str) -> None:
    """What is lost on the way may have been paid for: it is told, in time, and not sent again (P10, P14)."""
    hurt, calls = FAULTS[fault]
    chatting.ask()
    chatting.link.cut()  # so that the call has a connection of its own
    before = chatting.calls()
    hurt(chatting.link)
    answer = chatting.ask()

    assert (503, "model_unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert 1 <= int(answer.headers["retry-after"]) <= 120
    assert calls == chatting.calls() - before


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_stream_that_breaks_ends_with_an_error(chatting: Chatting, is_reset: bool) -> None:
    """The pieces that came are sent, then an error and no [DONE]: nobody takes it for a whole answer (P6)."""
    chatting.ask()
    chatting.link.cut()
    if is_reset:
        chatting.link.cut_at(b'"content": " two"', Towards.CLIENT)
    else:
        chatting.link.cut_after(900, Towards.CLIENT)
    # A reset overtakes what was not read yet: the pieces before it have the time to arrive.
    answer = chatting.ask("[up:slow=0.3]", stream=True)

    assert 200 == answer.status_code
    assert "one" in answer.text or not is_reset
    assert '"error"' in answer.text
    assert "[DONE]" not in answer.text
    assert '"finish_reason":"stop"' not in answer.text


def test_a_slow_link_is_slow_and_nothing_else(chatting: Chatting) -> None:
    """Late blocks make a late answer, whole."""
    chatting.link.delay(0.1)
    answer = chatting.ask("Late.")

    assert (200, "Late.") == (answer.status_code, answer.json()["choices"][0]["message"]["content"])
