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
