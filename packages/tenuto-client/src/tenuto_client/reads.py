"""Voices, models, lists of jobs, webhooks and the account: one request each. Flows that `drive` runs."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from tenuto_client.errors import NoModel, NotFound, UnexpectedAnswer, utf8
from tenuto_client.exchange import Link, ask
from tenuto_client.records import (
    Artifact,
    Balance,
    Event,
    LedgerEntry,
    Model,
    Operation,
    UsageLine,
    Voice,
    VoicePreference,
    VoicePreferences,
    Webhook,
    WebhookDelivery,
    read,
)
from tenuto_client.steps import Flow, Request, path_of

T = TypeVar("T")

PAGE = 100
_JSON = {"Content-Type": "application/json"}


def page(
    link: Link, kind: type[T], path: str, query: Mapping[str, Any], *, after: str | None = None
) -> Flow[tuple[list[T], str | None]]:
    """One page of a list, and the cursor of the next."""
    texts = {name: str(value) for name, value in {**query, "after": after}.items() if value is not None}
    document = yield from ask(link, Request("GET", path, query=texts))
    if not isinstance(document, Mapping) or not isinstance(document.get("data"), list):
        raise UnexpectedAnswer(f"{path} did not answer with a list")
    return [read(kind, item) for item in document["data"]], document.get("next_cursor")


def models(link: Link) -> Flow[list[Model]]:
    """The models that the key may use, in the service's order."""
    first_page, _ = yield from page(link, Model, path_of("models"), {})
    return first_page


def model_for(link: Link, kind: str) -> Flow[str]:
    """The first callable model of a kind; for recognition, preferably one with both transcripts."""
    same_kind = [model for model in (yield from models(link)) if model.kind == kind]
    fitting = [model for model in same_kind if model.callable]
    if not fitting:
        why = [f"{model.id}: {model.callable_reason}" for model in same_kind]
        raise NoModel(f"no {kind} model takes work from this key now ({'; '.join(why) or 'it sees none'})")
    return max(fitting, key=lambda model: len(model.engines)).id if kind == "recognition" else fitting[0].id


def voices(link: Link) -> Flow[list[Voice]]:
    """All voices: those of the service first, then the account's own."""
    everything: list[Voice] = []
    after: str | None = None
    while True:
        batch, after = yield from page(link, Voice, path_of("voices"), {"limit": PAGE}, after=after)
        everything += batch
        if after is None:
            return everything


def voice(link: Link, voice_id: str) -> Flow[Voice]:
    """One voice."""
    return read(Voice, (yield from ask(link, Request("GET", path_of("voices", voice_id)))))


def create_voice(link: Link, name: str, content: bytes, key: str | None) -> Flow[Voice]:
    """Upload a PCM16 WAV of 1 to 15 seconds; repeating it with the same key returns the same voice."""
    headers = {
        "Content-Type": "audio/wav",
        "X-Service-Voice-Name": quote(utf8(name), safe=""),
        "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
        "Idempotency-Key": key or str(uuid.uuid4()),
    }
    return read(Voice, (yield from ask(link, Request("POST", path_of("voices"), headers, content))))


def rename_voice(link: Link, voice_id: str, name: str) -> Flow[Voice]:
    """Rename a voice of one's own."""
    request = Request("PATCH", path_of("voices", voice_id), _JSON, _encode({"name": name}))
    return read(Voice, (yield from ask(link, request)))


def delete_voice(link: Link, voice_id: str) -> Flow[None]:
    """Delete a voice of one's own; accepted jobs keep its recording."""
    yield from _delete(link, path_of("voices", voice_id))


def voice_recording(voice: Voice) -> Artifact:
    """The size, hash and type that a download of the voice must have."""
    audio = voice.audio
    return Artifact(voice.voice_id, "audio/wav", audio["size_bytes"], audio["sha256"])


def preferences(link: Link) -> Flow[VoicePreferences]:
    """The saved choices."""
    document = yield from ask(link, Request("GET", path_of("voice-preference")))
    return VoicePreferences(
        tuple(read(VoicePreference, item) for item in document["data"]),
        read(VoicePreference, document["default"]) if document.get("default") else None,
    )


def save_preference(link: Link, voice_id: str, content_account: str | None) -> Flow[VoicePreference]:
    """Choose a voice for a content account, or as the default."""
    body = {"voice_id": voice_id} | ({"content_account": content_account} if content_account else {})
    request = Request("PUT", path_of("voice-preference"), _JSON, _encode(body))
    return read(VoicePreference, (yield from ask(link, request)))


def balance(link: Link) -> Flow[Balance]:
    """The current balance of the account."""
    return read(Balance, (yield from ask(link, Request("GET", path_of("account", "balance")))))


def ledger(link: Link, *, after: str | None, limit: int) -> Flow[tuple[list[LedgerEntry], str | None]]:
    """A page of the ledger, newest first."""
    return (yield from page(link, LedgerEntry, path_of("account", "ledger"), {"limit": limit}, after=after))


def usage(link: Link, *, since: str | None, until: str | None) -> Flow[list[UsageLine]]:
    """Usage by day, model and key; days as `2026-11-30`, UTC."""
    lines, _ = yield from page(link, UsageLine, path_of("usage"), {"since": since, "until": until})
    return lines


def jobs(
    link: Link, query: Mapping[str, Any], *, after: str | None, limit: int
) -> Flow[tuple[list[Operation], str | None]]:
    """A page of the account's jobs, newest first."""
    return (yield from page(link, Operation, path_of("jobs"), {**query, "limit": limit}, after=after))


def found(link: Link, query: Mapping[str, Any], *, after: str | None, limit: int) -> Flow[list[Operation]]:
    """The newest matching jobs, `limit` of them if they exist: a single page of a search may have fewer."""
    operations, cursor = yield from jobs(link, query, after=after, limit=limit)
    while cursor is not None and len(operations) < limit:
        more, cursor = yield from jobs(link, query, after=cursor, limit=limit - len(operations))
        operations += more
    return operations


def events(link: Link, job_id: str) -> Flow[list[Event]]:
    """The history of the job, oldest first."""
    history, _ = yield from page(link, Event, path_of("jobs", job_id, "events"), {})
    return history


def job_request(link: Link, job_id: str) -> Flow[Any]:
    """The request body that was accepted."""
    return (yield from ask(link, Request("GET", path_of("jobs", job_id, "request"))))


def erase_job(link: Link, job_id: str) -> Flow[Operation]:
    """Permanently erase the input and result of a finished job."""
    return read(Operation, (yield from ask(link, Request("DELETE", path_of("jobs", job_id, "content")))))


def erase_artifact(link: Link, artifact_id: str) -> Flow[None]:
    """Permanently erase one result, or one input that no unfinished job needs."""
    yield from ask(link, Request("DELETE", path_of("artifacts", artifact_id)))


def webhooks(link: Link) -> Flow[list[Webhook]]:
    """The webhooks that the key may see, oldest first."""
    everything, _ = yield from page(link, Webhook, path_of("webhooks"), {})
    return everything


def webhook(link: Link, webhook_id: str) -> Flow[Webhook]:
    """One webhook."""
    return read(Webhook, (yield from ask(link, Request("GET", path_of("webhooks", webhook_id)))))


def create_webhook(link: Link, url: str, events: Iterable[str], description: str) -> Flow[Webhook]:
    """Create a webhook, with its secret. Not retried once it may have arrived: there could be two."""
    body = _encode({"url": url, "events": list(events), "description": description})
    request = Request("POST", path_of("webhooks"), _JSON, body, is_repeatable=False)
    return read(Webhook, (yield from ask(link, request)))


def change_webhook(link: Link, webhook_id: str, changes: Mapping[str, Any]) -> Flow[Webhook]:
    """Set `url`, `events`, `description` or `enabled`."""
    request = Request("PATCH", path_of("webhooks", webhook_id), _JSON, _encode(changes))
    return read(Webhook, (yield from ask(link, request)))


def rotate_webhook(link: Link, webhook_id: str) -> Flow[Webhook]:
    """Get a new secret. Not retried once it may have arrived: the secret in use would no longer sign."""
    request = Request("POST", path_of("webhooks", webhook_id, "rotate"), is_repeatable=False)
    return read(Webhook, (yield from ask(link, request)))


def delete_webhook(link: Link, webhook_id: str) -> Flow[None]:
    """Delete a webhook with all messages that wait for it."""
    yield from _delete(link, path_of("webhooks", webhook_id))


def test_webhook(link: Link, webhook_id: str) -> Flow[WebhookDelivery]:
    """Send a message of the type `webhook.test`."""
    request = Request("POST", path_of("webhooks", webhook_id, "test"), is_repeatable=False)
    return read(WebhookDelivery, (yield from ask(link, request)))


def deliveries(
    link: Link, webhook_id: str, *, after: str | None, limit: int
) -> Flow[tuple[list[WebhookDelivery], str | None]]:
    """A page of what was sent to a webhook, newest first."""
    path = path_of("webhooks", webhook_id, "deliveries")
    return (yield from page(link, WebhookDelivery, path, {"limit": limit}, after=after))


def redeliver(link: Link, webhook_id: str, delivery_id: str) -> Flow[WebhookDelivery]:
    """Send a message again, under its own message id."""
    request = Request("POST", path_of("webhooks", webhook_id, "deliveries", delivery_id, "redeliver"))
    return read(WebhookDelivery, (yield from ask(link, request)))


def _delete(link: Link, path: str) -> Flow[None]:
    try:
        yield from ask(link, Request("DELETE", path))
    except NotFound as error:
        if error.is_foreign or not error.is_in_doubt:
            raise
        # An earlier try whose response was lost has deleted it.


def _encode(document: Mapping[str, Any]) -> bytes:
    return utf8(json.dumps(document, ensure_ascii=False))
