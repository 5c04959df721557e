"""POST /v1/responses: OpenAI's newer form of a chat, for text, with the same models and metering.

Nothing is kept between requests: a program sends what the model should remember. Features that need OpenAI's
storage or tools are refused by name.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec

from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers, json_answer
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.json_body import MAX_CHAT_VALUES, read_checked
from tenuto.api.service import Service
from tenuto.errors import Fault
from tenuto.features.chat.answers import Choice, Piece, Usage
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.chats import Chats
from tenuto.features.chat.routes import (
    EventHead,
    answered_while_there,
    begin_events,
    charged_header,
    checked,
    refuse_switched_off,
    request_key,
)
from tenuto.features.chat.settings import ChatSettings
from tenuto.features.openai.idempotency_keys import quota_errors
from tenuto.features.openai.request_jobs import Lenient, ignored_header, lenient
from tenuto.rules import wrong_type

_SAME = ("model", "temperature", "top_p", "stream", "user", "metadata")
_RENAMED = {"max_output_tokens": "max_tokens"}
_WITHIN = {"text": ("format", "response_format"), "reasoning": ("effort", "reasoning_effort")}
"""Objects of which one field has a meaning here, and its name in a chat."""
_NONE = {
    "store": (False,),
    "background": (False,),
    "truncation": ("disabled",),
    "tools": ([],),
    "include": ([],),
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True, False),
}
"""Values of refused fields that ask for nothing, and so are accepted."""
_REFUSED = {
    "previous_response_id": "nothing is kept of a response; send the conversation as `input`",
    "conversation": "nothing is kept of a response; send the conversation as `input`",
    "prompt": "no prompts are kept here; send `instructions` and `input`",
    "store": "nothing is kept of a response; send false or leave it out",
    "background": "the answer is sent at once; send false or leave it out",
    "tools": "is not available here; POST /v1/chat/completions takes functions where the model does",
    "include": "is not available here; leave it out",
    "truncation": 'a conversation is never cut; send "disabled" or leave it out',
    "tool_choice": "is not available here; leave it out",
    "parallel_tool_calls": "must be true or false",
}
_KNOWN = dict.fromkeys([*_SAME, *_RENAMED, *_REFUSED, "input", "instructions", "text", "reasoning"])
_MESSAGE_FIELDS = {"type", "role", "content", "id", "status", "phase"}
Texts = dict[str, str]
"""The texts of an answer by the type of their part, `output_text` or `refusal`, in their order."""
_encode = msgspec.json.Encoder().encode


async def create(call: Call) -> Answer | None:
    """The response, whole or as events. The order of checks is that of a chat."""
    service = call.service
    caller = await call.authenticate()
    limit_bytes, check = (
        service.settings.of(ChatSettings).chat_body_kib << 10,
        partial(_checked, service, caller),
    )
    sent, request = await read_checked(call, limit_bytes, MAX_CHAT_VALUES, check)
    key = request_key(call)
    await refuse_switched_off(call, request.model)
    about = _About(call, request, sent.values)
    headers = ignored_header(sent.ignored)
    with quota_errors():
        if not request.stream:
            completion = await answered_while_there(call, service.part(Chats).complete(caller, request, key))
            [choice, *_] = completion.choices
            response = about.ended(texts_of(choice), choice.finish_reason, completion.usage)
            return json_answer(200, response, *headers, *charged_header(completion.charged_micros))
        async with aclosing(service.part(Chats).stream(caller, request, key)) as pieces:
            await _stream(call, about, pieces, headers)
    return None


def _checked(service: Service, caller: Caller, value: Any) -> tuple[Lenient, ChatRequest]:
    """The fields that were sent, and the chat that they ask for. Raises what `checked` raises."""
    sent, faults = lenient(value, _KNOWN), list[Fault]()
    body = _chat_body(sent.values, faults)
    return sent, checked(service, caller, body, faults, lambda param: _their_name(param, sent.values))


def _chat_body(sent: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """The request as the body of a chat; what has no meaning there is a fault."""
    for name, words in _REFUSED.items():
        if name in sent and sent[name] not in _NONE.get(name, ()):
            faults.append(Fault(name, "not_allowed", words))
    body = {name: sent[name] for name in _SAME if name in sent}
    body |= {theirs: sent[ours] for ours, theirs in _RENAMED.items() if ours in sent}
    messages = _messages(sent.get("input"), faults) if "input" in sent else []
    if "input" not in sent:
        faults.append(Fault("input", "required", "is missing; it is required"))
    if "instructions" in sent:
        messages = [{"role": "system", "content": sent["instructions"]}, *messages]
    # A missing message has been reported already.
    body["messages"] = messages or [{"role": "user", "content": ""}]
    for name, (its, field) in _WITHIN.items():
        if name in sent and (value := _only(name, sent[name], its, faults)) is not None:
            body[field] = value
    return _by_schema(body)


def _only(name: str, value: Any, field: str, faults: list[Fault]) -> Any:
    """The one field of an object that has a meaning here."""
    if type(value) is not dict:
        faults.append(wrong_type(name, value, "an object"))
        return None
    return value.get(field)


def _by_schema(body: dict[str, Any]) -> dict[str, Any]:
    """Move a schema, which is beside the type here, into an object of its own, as in a chat."""
    form = body.get("response_format")
    if type(form) is dict and form.get("type") == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _messages(given: Any, faults: list[Fault]) -> list[Any]:
    if type(given) is str:
        return [{"role": "user", "content": given}]
    if type(given) is not list or not given:
        faults.append(wrong_type("input", given, "a string or an array of messages"))
        return []
    return [_message(f"input[{number}]", item, faults) for number, item in enumerate(given)]


def _message(param: str, item: Any, faults: list[Fault]) -> Any:
    if type(item) is not dict:
        return item
    if item.get("type", "message") != "message":
        words = "is not a message; functions and other items are not available here"
        faults.append(Fault(f"{param}.type", "not_allowed", words))
    own = {name: value for name, value in item.items() if name in ("role", "content")}
    own |= {name: value for name, value in item.items() if name not in _MESSAGE_FIELDS}
    if type(own.get("content")) is list:
        parts = own["content"]
        refusals = [text for part in parts if (text := _refusal(part))]
        own["content"] = [_part(part) for part in parts if not _refusal(part)]
        if refusals:
            own |= {"content": own["content"] or None, "refusal": "".join(refusals)}
    return own


def _refusal(part: Any) -> str | None:
    """The text of a part that is a refusal; in a chat it is a field of the message."""
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return text
    return None


def _part(part: Any) -> Any:
    match part:
        case {"type": "input_text" | "output_text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            detail = {"detail": part["detail"]} if part.get("detail") is not None else {}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
    return part


def _their_name(param: str, sent: dict[str, Any]) -> str:
    """This route's name for a field of a chat."""
    names = {"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"}
    if param.startswith("messages["):
        number, _, rest = param.removeprefix("messages[").partition("]")
        index = int(number) - ("instructions" in sent)
        if index < 0:
            return "instructions"
        return "input" if type(sent.get("input")) is str else f"input[{index}]{rest}"
    if param.startswith("response_format"):
        return param.replace("response_format", "text.format").replace(".json_schema", "")
    return "input" if param == "messages" else names.get(param, param)


class _About:
    """One response: its ids, and its content at each stage."""

    def __init__(self, call: Call, request: ChatRequest, sent: dict[str, Any]) -> None:
        self.message_id = call.service.ids.new("msg")
        self._head = {
            "id": call.service.ids.new("resp"),
            "object": "response",
            "created_at": call.service.clock() // 1000,
            "model": request.model,
            "instructions": sent.get("instructions"),
            "max_output_tokens": request.limit,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "text": {"format": _format(sent)},
            "reasoning": {"effort": request.reasoning_effort, "summary": None},
            "metadata": sent.get("metadata", {}),
            "user": sent.get("user"),
            "background": False,
            "parallel_tool_calls": sent.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "store": False,
            "tool_choice": sent.get("tool_choice", "auto"),
            "tools": [],
            "truncation": "disabled",
        }

    def begun(self) -> dict[str, Any]:
        """The response before its first piece."""
        return self._as("in_progress")

    def failed(self, message: str) -> dict[str, Any]:
        """The response after its model failed midway."""
        return self._as("failed", error={"code": "server_error", "message": message})

    def ended(self, texts: Texts, finish_reason: str, usage: Usage | None) -> dict[str, Any]:
        """The response with all of its text."""
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        cut = reasons.get(finish_reason)
        return self._as(
            "completed" if cut is None else "incomplete",
            output=[self.item("completed" if cut is None else "incomplete", _content(texts))],
            incomplete_details=None if cut is None else {"reason": cut},
            usage=None if usage is None else _usage(usage),
        )

    def item(self, status: str, content: list[Any]) -> dict[str, Any]:
        """The message that is the response's output."""
        about = {"id": self.message_id, "type": "message", "role": "assistant"}
        return {**about, "status": status, "content": content}

    def _as(self, status: str, **more: Any) -> dict[str, Any]:
        none: dict[str, Any] = {"output": [], "error": None, "incomplete_details": None, "usage": None}
        return {**self._head, "status": status, **none, **more}


def _format(sent: dict[str, Any]) -> Any:
    text = sent.get("text")
    return (text.get("format") if type(text) is dict else None) or {"type": "text"}


def texts_of(answer: Choice | Piece) -> Texts:
    """What there is of a text and a refusal in an answer, or in a piece of one."""
    texts = {"output_text": answer.text, "refusal": answer.more.get("refusal")}
    return {kind: text for kind, text in texts.items() if text}


def _content(texts: Texts) -> list[dict[str, Any]]:
    """The parts of a message; an answer without a word is an empty text."""
    return [_part_of(kind, text) for kind, text in (texts or {"output_text": ""}).items()]


def _part_of(kind: str, text: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


class _Events:
    """Events, numbered as they are sent."""

    def __init__(self, call: Call, message_id: str) -> None:
        self._call = call
        self._number = 0
        self._item = {"item_id": message_id, "output_index": 0}
        self._pieces: dict[str, list[str]] = {}
        """What was sent of each part."""

    async def send(self, name: str, **values: Any) -> None:
        """One event."""
        event = {"type": name, "sequence_number": self._number, **values}
        self._number += 1
        body = b"event: " + name.encode() + b"\ndata: " + _encode(event) + b"\n\n"
        await self._call.send({"type": "http.response.body", "body": body, "more_body": True})

    async def add(self, kind: str, text: str) -> None:
        """A piece of a part of the only message; the first one begins the part."""
        if kind not in self._pieces:
            self._pieces[kind] = []
            await self._of_part("response.content_part.added", kind, part=_part_of(kind, ""))
        if text:
            self._pieces[kind].append(text)
            await self._of_part(f"response.{kind}.delta", kind, delta=text)

    def texts(self) -> Texts:
        """What was sent of each part."""
        return {kind: "".join(pieces) for kind, pieces in self._pieces.items()}

    async def end_parts(self, texts: Texts) -> None:
        """The end of each part."""
        for kind, text in texts.items():
            part = _part_of(kind, text)
            whole = {"refusal": text} if kind == "refusal" else {"text": text}
            await self._of_part(f"response.{kind}.done", kind, **whole)
            await self._of_part("response.content_part.done", kind, part=part)

    async def _of_part(self, name: str, kind: str, **values: Any) -> None:
        probabilities: dict[str, Any] = {"logprobs": []} if ".output_text." in name else {}
        index = list(self._pieces).index(kind)
        await self.send(name, **self._item, content_index=index, **values, **probabilities)


async def _stream(call: Call, about: _About, pieces: AsyncIterator[Piece], headers: Headers) -> None:
    """Send the pieces as they arrive. An error before the stream has begun is answered like any other."""
    events = _Events(call, about.message_id)
    head = EventHead(call, partial(_begin, call, events, about, headers))
    reason, usage = "stop", None
    try:
        async with aclosing(head.before(pieces)) as sent:
            async for piece in sent:
                usage, reason = piece.usage or usage, piece.finish_reason or reason
                for kind, text in texts_of(piece).items():
                    await events.add(kind, text)
        await _end(events, about, reason, usage)
    except ClientGone:
        raise
    except Exception as error:
        if not head.is_sent:
            raise
        message = call.stated(error).message
        await events.send("response.failed", response=about.failed(message))
    await call.send({"type": "http.response.body", "body": b""})


async def _begin(call: Call, events: _Events, about: _About, headers: Headers) -> None:
    await begin_events(call, headers)
    await events.send("response.created", response=about.begun())
    await events.send("response.in_progress", response=about.begun())
    item = about.item("in_progress", [])
    await events.send("response.output_item.added", output_index=0, item=item)


async def _end(events: _Events, about: _About, reason: str, usage: Usage | None) -> None:
    if not events.texts():
        await events.add("output_text", "")
    texts = events.texts()
    response = about.ended(texts, reason, usage)
    [item] = response["output"]
    await events.end_parts(texts)
    await events.send("response.output_item.done", output_index=0, item=item)
    await events.send(f"response.{response['status']}", response=response)
