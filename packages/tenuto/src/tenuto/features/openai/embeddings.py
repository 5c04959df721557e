"""POST /v1/embeddings: vectors of texts, by our own model or another server's. Metered like chats."""

import asyncio
from typing import Any

from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call
from tenuto.api.json_body import read_json
from tenuto.api.service import Service
from tenuto.errors import Fault, InvalidRequest, ModelNotAllowed
from tenuto.features.chat.chats import Chats
from tenuto.features.chat.embeddings_body import FIELDS, EmbeddingRequest, check
from tenuto.features.chat.routes import answered_while_there, charged_header, refuse_switched_off, request_key
from tenuto.features.chat.settings import ChatSettings
from tenuto.features.openai.idempotency_keys import quota_errors
from tenuto.features.openai.request_jobs import ignored_header, lenient
from tenuto.kind.kinds import EMBEDDING

MAX_VALUES = 400_000
"""In a body; most of them are tokens."""


async def create(call: Call) -> Answer | None:
    """The vectors, in the order of the inputs."""
    caller = await call.authenticate()
    limit_bytes = call.service.settings.of(ChatSettings).chat_body_kib << 10
    _, value = await read_json(call, limit_bytes, max_values=MAX_VALUES)
    sent = lenient(value, FIELDS)
    request = _checked(call.service, caller, sent.values)
    key = request_key(call)
    await refuse_switched_off(call, request.model)
    with quota_errors():
        made = await answered_while_there(call, call.service.part(Chats).embed(caller, request, key))
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(made.vectors)
    ]
    tokens = made.usage.prompt_tokens
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": request.model, "usage": usage}
    headers = [*ignored_header(sent.ignored), *charged_header(made.charged_micros)]
    return await asyncio.to_thread(json_answer, 200, answer, *headers)


def _checked(service: Service, caller: Caller, sent: dict[str, Any]) -> EmbeddingRequest:
    """The request for a model that this caller may use; raises with all faults at once."""
    request, faults = check(sent)
    name = sent.get("model")
    model = service.models.get(name) if type(name) is str else None
    if model is None or model.kind != EMBEDDING:
        own = [one.name for one in service.models.values() if one.kind == EMBEDDING]
        names = ", ".join(name for name in own if caller.may_use(name))
        if type(name) is str:
            remedy = f"choose one of {names}" if names else "this key can use none; ask the operator for one"
            message = f"is not an embedding model; {remedy}"
            faults.append(Fault("model", "unknown_model", message))
    elif not caller.may_use(model.name):
        raise ModelNotAllowed
    if request is None or faults:
        raise InvalidRequest(faults)
    return request
