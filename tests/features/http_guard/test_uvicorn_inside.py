"""What the HTTP server uses of uvicorn and httptools beyond what they promise: an upgrade may fail here.

Behaviour is tested in `test_server.py`; this names each name that is relied on.
"""

import ast
import asyncio
import inspect
import textwrap
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import CLOSE_HEADER, FlowControl
from uvicorn.server import ServerState

from tenuto.api.server import Server as Plain
from tenuto.features.http_guard.connection import Connection, Exchange
from tenuto.features.http_guard.server import Server

PROTOCOL = {
    *("app", "access_logger", "client", "connections", "cycle", "expect_100_continue", "flow", "headers"),
    *("logger", "parser", "pipeline", "scope", "server_state", "transport", "url", "_start_asgi_task"),
}
"""Of `HttpToolsProtocol`: what our connection reads, sets or calls."""
OVERRIDDEN = {
    *("connection_made", "connection_lost", "data_received", "eof_received", "resume_writing"),
    *("on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"),
    "on_response_complete",
}
"""Of `HttpToolsProtocol`: what our connection replaces or extends."""
CYCLE = {
    *(
        "chunked_encoding",
        "disconnected",
        "expected_content_length",
        "keep_alive",
        "message_event",
        "more_body",
    ),
    *("on_response", "receive", "response_complete", "response_started", "scope", "send", "transport"),
}
"""Of `RequestResponseCycle`: what our exchange and our connection read, set or call."""
MADE_WITH = {
    *("scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers"),
    *("message_event", "expect_100_continue", "keep_alive", "on_response"),
}
"""How a `RequestResponseCycle` is made: these arguments and no others."""
STATE = {"connections", "default_headers", "total_requests"}
FLOW = {"pause_reading", "resume_reading", "write_paused"}
SERVER = {
    "capture_signals",
    "force_exit",
    "main_loop",
    "on_tick",
    "run",
    "serve",
    "server_state",
    "should_exit",
    "startup",
}
STARTED = {"servers"}
"""Of `Server`, from its start on."""
PARSER = {"feed_data", "get_http_version", "get_method", "should_keep_alive", "should_upgrade"}


class _Transport(asyncio.Transport):
    """A transport of nobody."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def attributes_of_self(cls: type, context: type[ast.expr_context] = ast.expr_context) -> set[str]:
    """The attributes of `self` in the source of a class, or those that it sets (`ast.Store`)."""
    return {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(cls)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def inherited(cls: type) -> set[str]:
    """The attributes of `self` that a class of ours uses and neither defines nor makes in `__init__`."""
    makes = cls.__dict__.get("__init__")
    tree = ast.parse(textwrap.dedent(inspect.getsource(makes))) if makes else ast.parse("")
    made = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    return attributes_of_self(cls) - made - cls.__dict__.keys() - inspect.get_annotations(cls).keys()


async def protocol_of_uvicorn() -> httptools_impl.HttpToolsProtocol:
    """A connection as uvicorn makes it, with one request begun."""
    config = uvicorn.Config(lambda *_: None, ws="none", log_config=None)
    config.load()
    protocol = httptools_impl.HttpToolsProtocol(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(_Transport())
    protocol.on_message_begin()
    return protocol


def test_what_is_used_of_uvicorns_connection_is_there() -> None:
    """Every name in the tables exists, and our classes use no other."""
    protocol = asyncio.run(protocol_of_uvicorn())

    assert set() == {name for name in PROTOCOL | OVERRIDDEN if not hasattr(protocol, name)}
    assert set() == {name for name in STATE if not hasattr(protocol.server_state, name)}
    assert set() == {name for name in FLOW if name not in dir(FlowControl) | vars(protocol.flow).keys()}
    assert set() == inherited(Connection) - PROTOCOL - OVERRIDDEN
    assert b"close" in CLOSE_HEADER[1]
    assert httptools_impl.STATUS_LINE[503].startswith(b"HTTP/1.1 503 ")


def test_what_is_used_of_uvicorns_exchange_is_there() -> None:
    """It is made with the arguments that we know, and has the state that we read and set."""
    cycle = httptools_impl.RequestResponseCycle
    arguments = set(inspect.signature(cycle.__init__).parameters) - {"self"}

    assert arguments == MADE_WITH
    assert set() == CYCLE - attributes_of_self(cycle, ast.Store) - set(dir(cycle))
    assert set() == inherited(Exchange) - CYCLE
    assert "send_500_response" in dir(cycle)


def test_what_is_used_of_the_server_and_the_parser_is_there() -> None:
    """uvicorn's server is started, swept and stopped from outside; the parser tells where it stopped."""
    own = uvicorn.Server(uvicorn.Config(lambda *_: None, log_config=None))
    parser = httptools.HttpRequestParser(object())
    url = httptools.parse_url(b"/a?b")

    assert set() == {name for name in SERVER if not hasattr(own, name)}
    assert set() == STARTED - attributes_of_self(uvicorn.Server, ast.Store)
    assert set() == inherited(Server) - SERVER - STARTED - vars(Plain).keys()
    assert set() == inherited(Plain) - SERVER - STARTED
    assert set() == {name for name in PARSER if not hasattr(parser, name)}
    assert (b"/a", b"b") == (url.path, url.query)
    assert issubclass(httptools.HttpParserUpgrade, Exception)
