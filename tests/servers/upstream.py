"""A chat server as upstreams are: OpenAI's format over real HTTP, with fields of its own, and faults.

The last message's text chooses what it does, `[up:NAME]` or `[up:NAME=SECONDS]`; else it says the text back.
"""

import base64
import json
import re
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PRIVATE = "private-to-the-upstream"
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": ""}},
]
"""What `[up:tools]` calls."""
CALL_DELTAS: list[dict[str, Any]] = [
    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"city": '}},
    {"index": 0, "function": {"arguments": '"Köln"}'}},
    {"index": 1, "id": "call_2", "type": "function", "function": {"name": "time", "arguments": ""}},
]
"""The same in a stream, one call's part a chunk."""
UNNUMBERED_DELTAS: list[dict[str, Any]] = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}},
    {"id": "", "type": "", "function": {"arguments": '"Köln"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": ""}},
]
"""The same from a server that does not number them, for `[up:unnumbered]`."""
REFUSAL = ("No, I", " won't.")
"""What `[up:refuse]` says instead of an answer; `[up:doubt]` says it after one."""
LOGPROBS = {
    "content": [
        {
            "token": "Hi",
            "logprob": -0.25,
            "bytes": [72, 105],
            "top_logprobs": [{"token": "Ho", "logprob": -2.5, "bytes": None}],
        }
    ],
    "refusal": None,
}
"""What is said of tokens to who asks."""
THOUGHTS = 20
"""How many pieces of reasoning `[up:think]` sends before its words; `[up:ponder]` breaks off after both."""
_CHOICE = re.compile(r"\[up:(\w+)(?:=([0-9.]+))?\]")


@dataclass
class Seen:
    """What the server was asked, and whether whoever asked went away before the end."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)
    """What `[up:gate]` waits for, and `[up:think]` and `[up:ponder]` after their words."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    events: int = 0
    """Sent, of all streams."""
    running: int = 0
    most_at_once: int = 0


class UpstreamServer:
    """A listening server and what it has seen."""

    def __init__(self, port: int = 0) -> None:
        self.seen = Seen()
        seen = self.seen

        class Handler(_Handler):
            records = seen

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    records: Seen
    asked: bytes

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self.records.paths.append(self.path)
        self._answer(200, {})

    def do_POST(self) -> None:
        self.asked = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(self.asked)
        self.records.paths.append(self.path)
        self.records.bodies.append(body)
        self.records.authorizations.append(self.headers["Authorization"])
        text = _said(body)
        found = _CHOICE.match(text)
        name, number = (found[1], float(found[2] or 0)) if found else ("", 0.0)
        with self.records.lock:
            self.records.running += 1
            self.records.most_at_once = max(self.records.most_at_once, self.records.running)
        try:
            if self._misbehave(name, number):
                return
            if "input" in body:
                self._embed(body, name)
            else:
                self._say(text, name, number, streamed=body.get("stream") is True)
        except (BrokenPipeError, ConnectionResetError):
            self.records.gone.set()
        finally:
            with self.records.lock:
                self.records.running -= 1

    def _misbehave(self, name: str, number: float) -> bool:
        if name == "status":
            self._answer(int(number), {"error": {"message": PRIVATE}}, {"Retry-After": "7"})
        elif name == "context":
            text = "This model's maximum context length is 64 tokens. However, you requested 99 tokens."
            self._answer(400, {"error": {"message": text, "code": "context_length_exceeded"}})
        elif name == "redirect":
            self._answer(307, {}, {"Location": "/v1/elsewhere"})
        elif name == "garbage":
            self._answer(200, b"<html>" + PRIVATE.encode())
        elif name == "unmetered":
            self._answer(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})
        elif name == "cut":
            self.close_connection = True
        elif name == "gate":
            self.records.gate.wait(120)
            return False
        else:
            return False
        return True

    def _embed(self, body: dict[str, Any], name: str) -> None:
        """A vector for each input, `[number, 0.5, -2]`, the last first; `[up:other]`: in the other form."""
        given = body["input"]
        several = isinstance(given, list) and not isinstance(given[0], int)
        vectors: list[Any] = [[number, 0.5, -2.0] for number in range(len(given) if several else 1)]
        if (body["encoding_format"] == "base64") != (name == "other"):
            vectors = [base64.b64encode(struct.pack("<3f", *one)).decode() for one in vectors]
        if name in ("empty", "words"):
            vectors[0] = [] if name == "empty" else "no words"
        data = [{"embedding": one, "index": n, PRIVATE: 1} for n, one in enumerate(vectors)][::-1]
        usage = {"prompt_tokens": 4, "total_tokens": 4}
        answer = {"data": data[1:] if name == "fewer" else data, "usage": usage, "model": PRIVATE}
        self._answer(200, answer)

    def _say(self, text: str, name: str, number: float, *, streamed: bool) -> None:
        thoughts = THOUGHTS if name in ("think", "ponder") else 0
        usage: Any = {
            "prompt_tokens": 5,
            "completion_tokens": 2 + thoughts,
            "total_tokens": 7 + thoughts,
            PRIVATE: 1,
        }
        about = {"id": PRIVATE, "system_fingerprint": PRIVATE, "created": 1, "model": PRIVATE, PRIVATE: True}
        asked = json.loads(self.asked)
        if not streamed:
            message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": PRIVATE}
            choice = {"index": 0, "message": message, "finish_reason": "eos", "logprobs": PRIVATE}
            if asked.get("logprobs"):
                choice["logprobs"] = LOGPROBS
            if name == "tools":
                message |= {"content": None, "tool_calls": CALLS, "refusal": None}
                choice["finish_reason"] = "tool_calls"
            if name in ("refuse", "doubt"):
                message |= {"content": text if name == "doubt" else None, "refusal": "".join(REFUSAL)}
            choices = [choice | {"index": index} for index in range(asked.get("n", 1))]
            self._answer(200, about | {"choices": choices, "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self._event(about | {"choices": [{"index": 0, "delta": {"role": "assistant", PRIVATE: 1}}]})
        calls = {"tools": CALL_DELTAS, "unnumbered": UNNUMBERED_DELTAS}.get(name, ())
        first: list[Any] = [{"reasoning_content": PRIVATE}] * thoughts
        for delta in first + [{"tool_calls": [part | {PRIVATE: 1}]} for part in calls]:
            self._event(about | {"choices": [{"index": 0, "delta": delta}]})
        for word in () if name in ("tools", "unnumbered", "refuse") else ("one", " two"):
            time.sleep(number if name == "slow" else 0)
            for index in range(asked.get("n", 1)):
                reason = "" if name in ("vague", "lost") else None
                choice = {"index": index, "delta": {"content": word}, "finish_reason": reason}
                if asked.get("logprobs"):
                    choice["logprobs"] = LOGPROBS
                self._event(about | {"choices": [choice]})
        for word in REFUSAL if name in ("refuse", "doubt") else ():
            self._event(about | {"choices": [{"index": 0, "delta": {"refusal": word}}]})
        self.records.gate.wait(120 if thoughts else 0)
        if name in ("broken", "lost", "ponder"):
            return
        while name == "endless":
            time.sleep(0.02)
            self._event(about | {"choices": [{"index": 0, "delta": {"content": "more "}}]})
        reason = "tool_calls" if name in ("tools", "unnumbered") else "length"
        for index in range(asked.get("n", 1)) if name != "vague" else ():
            self._event(about | {"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
        self._event(about | {"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value: Any) -> None:
        # A comment before each event, as some servers send them to keep a connection open.
        self.wfile.write(b": still here\r\n\r\ndata: " + json.dumps(value).encode() + b"\r\n\r\n")
        self.wfile.flush()
        self.records.events += 1

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _said(body: dict[str, Any]) -> str:
    """The text that chooses what the server does."""
    if "input" in body:
        first = body["input"] if isinstance(body["input"], str) else body["input"][0]
        return first if isinstance(first, str) else ""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
