"""`Tenuto` and its resources, for programs that run in threads. `aio.py` is made from this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from tenuto_client import batch, chat, creation, downloads, following, pacing, reads, results, unspoken
from tenuto_client.batch import OnLine
from tenuto_client.chat import ChatChunk, ChatCompletion
from tenuto_client.creation import Order, Source
from tenuto_client.errors import ChatInterrupted
from tenuto_client.exchange import Clock
from tenuto_client.jobs import Job
from tenuto_client.lines import BatchReport, read_lines
from tenuto_client.lines import Source as LineSource
from tenuto_client.live_events import Following
from tenuto_client.parameters import (
    ChatMessage,
    ChatParameters,
    ImageParameters,
    RecognitionParameters,
    SpeechParameters,
)
from tenuto_client.records import (
    Balance,
    LedgerEntry,
    LiveEvent,
    Model,
    Operation,
    UsageLine,
    Voice,
    VoicePreference,
    VoicePreferences,
    Webhook,
    WebhookDelivery,
)
from tenuto_client.session import Session, link_to
from tenuto_client.steps import Lost, OnBytes, path_of


class _Resource:
    def __init__(self, session: Session) -> None:
        self._session = session

    def _submit(
        self,
        order: Order,
        parameters: Mapping[str, Any],
        source: Source | None = None,
        on_bytes: OnBytes | None = None,
    ) -> Job:
        session = self._session
        flow = creation.create(
            session.link, order, parameters, session.models, source=source, on_bytes=on_bytes
        )
        reading, journal_file = self._session.run(flow)
        return Job(session, reading, journal_file, order.kind)


class Speech(_Resource):
    """Text to speech."""

    def create(
        self,
        text: str,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **parameters: Unpack[SpeechParameters],
    ) -> Job:
        """Submit a text of 1 to 8,192 bytes of UTF-8; the result is a WAV.

        Without `model`, the first callable one is used. Warns with UnspokenTextWarning if some characters of
        the text will be left out. Raises InvalidRequest (with every problem), InsufficientBalance,
        NotAllowed, ServiceUnreachable, JournalError.
        """
        unspoken.warn(text, stacklevel=2)
        order = Order("speech", model, metadata, idempotency_key)
        return self._submit(order, {"text": text, **parameters})


class Recognition(_Resource):
    """Speech to text."""

    def create(
        self,
        file: Source,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        on_bytes: OnBytes | None = None,
        **parameters: Unpack[RecognitionParameters],
    ) -> Job:
        """Upload a recording of at most 120 minutes and submit it; the result is JSON, `job.json()`.

        WAV, FLAC, MP3, OGG, and with ffmpeg M4A, WebM and most films, are converted to 16 kHz mono FLAC
        first. `on_bytes` is called with the bytes uploaded so far and the total. Raises AudioError and what
        `speech.create` does.
        """
        order = Order("recognition", model, metadata, idempotency_key)
        return self._submit(order, parameters, file, on_bytes)


class Images(_Resource):
    """Text to image."""

    def create(
        self,
        prompt: str,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **parameters: Unpack[ImageParameters],
    ) -> Job:
        """Submit a prompt of 1 to 20,000 bytes of UTF-8 in a language of the model; the result is a PNG."""
        order = Order("image", model, metadata, idempotency_key)
        return self._submit(order, {"prompt": prompt, **parameters})


class Chat:
    """Chat models, in OpenAI's format."""

    def __init__(self, session: Session) -> None:
        self.completions = Completions(session)


class Completions(_Resource):
    """Answers from chat models."""

    @overload
    def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: Literal[False] = False,
        **parameters: Unpack[ChatParameters],
    ) -> ChatCompletion: ...

    @overload
    def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: Literal[True],
        **parameters: Unpack[ChatParameters],
    ) -> Iterator[ChatChunk]: ...

    def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: bool = False,
        **parameters: Unpack[ChatParameters],
    ) -> ChatCompletion | Iterator[ChatChunk]:
        """A complete answer, or with `stream=True` its pieces as they arrive.

        A chat has no idempotency key, so it is not retried once it may have arrived.
        """
        session = self._session
        if model is None and "chat" not in session.models:
            session.models["chat"] = self._session.run(reads.model_for(session.link, "chat"))
        model = model or session.models["chat"]
        request = chat.request_of(model, messages, parameters, stream=stream)
        if not stream:
            return self._session.run(chat.complete(session.link, request))
        answer = self._session.run(chat.opened(session.link, request))
        return self._pieces(answer.live)

    def _pieces(self, live: Any) -> Iterator[ChatChunk]:
        events = chat.Events()
        try:
            for block in self._session.driver.blocks(live):
                for chunk in events.feed(block):  # noqa: UP028 - an async generator has no `yield from`
                    yield chunk
        except Lost as error:
            raise ChatInterrupted(f"the answer was cut off: {error}") from error
        events.check()


class Voices(_Resource):
    """Voices, and saved choices of voices."""

    def list(self) -> list[Voice]:
        """All voices: those of the service first, then the account's own."""
        return self._session.run(reads.voices(self._session.link))

    def get(self, voice_id: str) -> Voice:
        """One voice."""
        return self._session.run(reads.voice(self._session.link, voice_id))

    def create(self, file: Source, name: str, *, idempotency_key: str | None = None) -> Voice:
        """Upload a PCM16 WAV of 1 to 15 seconds as a voice of your own."""
        content = creation.content_of(file)
        flow = reads.create_voice(self._session.link, name, content, idempotency_key)
        return self._session.run(flow)

    def rename(self, voice_id: str, name: str) -> Voice:
        """Rename a voice of your own."""
        return self._session.run(reads.rename_voice(self._session.link, voice_id, name))

    def delete(self, voice_id: str) -> None:
        """Delete a voice of your own; accepted jobs keep its recording."""
        self._session.run(reads.delete_voice(self._session.link, voice_id))

    def download(self, voice_id: str, path: str | Path) -> Path:
        """Save a voice's recording to a path, verified."""
        recording = reads.voice_recording(self.get(voice_id))
        source = path_of("voices", voice_id, "content")
        return self._session.run(downloads.save(self._session.link, recording, Path(path), source=source))

    def preferences(self) -> VoicePreferences:
        """The saved choices; jobs ignore them."""
        return self._session.run(reads.preferences(self._session.link))

    def prefer(self, voice_id: str, content_account: str | None = None) -> VoicePreference:
        """Save a choice for a content account, or as the default."""
        return self._session.run(reads.save_preference(self._session.link, voice_id, content_account))


class Models(_Resource):
    """The models of the service."""

    def list(self) -> list[Model]:
        """The models that the key may use."""
        return self._session.run(reads.models(self._session.link))


class Jobs(_Resource):
    """The account's jobs."""

    def get(self, job_id: str) -> Job:
        """The current state of a job, by its id. Raises NotFound."""
        return Job(self._session, self._session.run(following.show(self._session.link, job_id)))

    def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        model: str | None = None,
        search: str | None = None,
        voice: str | None = None,
        metadata: Mapping[str, str] | None = None,
        created_from: int | None = None,
        created_before: int | None = None,
        limit: int = 20,
        after: str | None = None,
    ) -> list[Operation]:
        """The newest jobs first, at most 100; the next page is `after` the last one's id.

        `search`: what the text, the prompt or the file's name contains; times are Unix seconds.
        """
        query = {
            "state": state,
            "kind": kind,
            "model": model,
            "q": search,
            "voice": voice,
            **{f"metadata[{name}]": value for name, value in (metadata or {}).items()},
            "created_from": created_from,
            "created_before": created_before,
        }
        return self._session.run(reads.found(self._session.link, query, after=after, limit=limit))

    def wait(self, job_id: str, timeout_s: float = pacing.GIVE_UP_S) -> Job:
        """Wait for a job by its id; see `Job.wait`."""
        job = self.get(job_id)
        return job.wait(timeout_s)


class Webhooks(_Resource):
    """Your servers that are notified when jobs finish. The operator must allow webhooks."""

    def create(self, url: str, events: Iterable[str], *, description: str = "") -> Webhook:
        """Create a webhook. `secret` is only in this response; save it to verify messages.

        Events: `job.succeeded`, `job.failed`, `job.cancelled`, `job.recovery_required`, `balance.low`.
        Raises InvalidRequest (with every problem), NotAllowed, ServiceUnreachable (it may exist then).
        """
        return self._session.run(reads.create_webhook(self._session.link, url, events, description))

    def get(self, webhook_id: str) -> Webhook:
        """One webhook. Raises NotFound."""
        return self._session.run(reads.webhook(self._session.link, webhook_id))

    def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Iterable[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change the given fields. `enabled=True` also sends what waited while it was disabled."""
        given = {
            "url": url,
            "events": None if events is None else [*events],
            "description": description,
            "enabled": enabled,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return self._session.run(reads.change_webhook(self._session.link, webhook_id, changes))

    def rotate(self, webhook_id: str) -> Webhook:
        """Get a new secret, which is only in this response; the old one also signs for 24 hours."""
        return self._session.run(reads.rotate_webhook(self._session.link, webhook_id))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and all messages that wait for it."""
        self._session.run(reads.delete_webhook(self._session.link, webhook_id))

    def test(self, webhook_id: str) -> WebhookDelivery:
        """Send a message of the type `webhook.test`; `deliveries` shows its outcome."""
        return self._session.run(reads.test_webhook(self._session.link, webhook_id))

    def deliveries(
        self, webhook_id: str, *, limit: int = 20, after: str | None = None
    ) -> list[WebhookDelivery]:
        """The newest messages first, at most 100; the next page is `after` the last one's id."""
        flow = reads.deliveries(self._session.link, webhook_id, after=after, limit=limit)
        page, _ = self._session.run(flow)
        return page

    def redeliver(self, webhook_id: str, delivery_id: str) -> WebhookDelivery:
        """Send a message again, under the same message id."""
        return self._session.run(reads.redeliver(self._session.link, webhook_id, delivery_id))

    def list(self) -> list[Webhook]:
        """All webhooks that the key may see, oldest first."""
        return self._session.run(reads.webhooks(self._session.link))


class Account(_Resource):
    """Money and usage; amounts are decimal strings in CNY, days are UTC."""

    def balance(self) -> Balance:
        """What is available, and what pending jobs hold."""
        return self._session.run(reads.balance(self._session.link))

    def ledger(self, *, limit: int = 20, after: str | None = None) -> list[LedgerEntry]:
        """The newest entries first, at most 100; the next page is `after` the last one's id."""
        lines, _ = self._session.run(reads.ledger(self._session.link, after=after, limit=limit))
        return lines

    def usage(self, *, since: str | None = None, until: str | None = None) -> list[UsageLine]:
        """Usage by day, model and key; days as `2026-11-30`, both included; by default the last 31 days."""
        return self._session.run(reads.usage(self._session.link, since=since, until=until))


class Tenuto:
    """A Tenuto service. Close it, or use it in a `with` block.

    `api_key` and `base_url` default to TENUTO_API_KEY and TENUTO_BASE_URL, then to what `tenuto login` saved.
    `timeout` is how many seconds a request may go without transferring a byte. A request is retried at most
    `max_retries` times, always with the same idempotency key. Jobs are written to a journal on disk before
    they are sent, so that `tenuto resume` finds interrupted ones; `journal` may be another folder, or False.
    `traceparent` returns the trace that a new job becomes part of, or None.

    Raises NotConfigured, InvalidSetting.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 5,
        journal: bool | str | Path = True,
        clock: Clock | None = None,
        traceparent: Callable[[], str | None] | None = None,
    ) -> None:
        link = link_to(
            api_key,
            base_url,
            timeout=timeout,
            max_retries=max_retries,
            journal=journal,
            clock=clock,
            traceparent=traceparent,
        )
        self._session = Session(link)
        self.speech = Speech(self._session)
        self.recognition = Recognition(self._session)
        self.images = Images(self._session)
        self.chat = Chat(self._session)
        self.voices = Voices(self._session)
        self.models = Models(self._session)
        self.jobs = Jobs(self._session)
        self.webhooks = Webhooks(self._session)
        self.account = Account(self._session)

    @property
    def base_url(self) -> str:
        """The address of the service."""
        return self._session.link.base_url

    def batch(
        self,
        lines: LineSource,
        folder: str | Path,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        forms: Iterable[str] = (),
        in_flight: int = batch.IN_FLIGHT,
        again: bool = False,
        on_line: OnLine | None = None,
    ) -> BatchReport:
        """Make a file for every line, and `report.csv`, in a folder; running it again continues.

        A line has an `id`, which names its file, one of `text`, `prompt` and `file` (a recording), and any
        parameters; `lines` are mappings, or a CSV or JSON Lines file. The folder is the batch: none of its
        lines is submitted or charged twice. A bad line does not stop the others. `forms` are as in a job's
        `download`, at most one per kind; by default WAV, PNG and plain text. At most `in_flight` jobs are
        unfinished at a time. `again` makes another job for lines whose job failed or was cancelled. `on_line`
        is called with the result of each line.

        It waits out ten minutes without the service. Raises ServiceUnreachable, RateLimited,
        InsufficientBalance, AuthenticationFailed, JournalError, InvalidSetting, OSError.
        """
        chosen = read_lines(lines, model=model, defaults=parameters)
        chosen_forms = results.forms_by_kind(forms)
        plan = batch.Plan(chosen, Path(folder), chosen_forms, in_flight, again, on_line)
        return self._session.run(batch.run(self._session.link, plan))

    def events(self, *, job_id: str | None = None, after: str | None = None) -> Iterator[LiveEvent]:
        """The events of the account's jobs as they happen; a restricted key sees those of its models.

        Without `after`, the id of an event, it starts now; with it, after that event, whatever has restarted
        since. With `job_id` it yields all events of that job from the first on, and ends with the job. A
        broken connection is reopened, so that every event comes once and in order. Raises Refused, or
        ServiceUnreachable if a connection fails more than `max_retries` times.
        """
        following = Following(self._session.link, job_id, after)
        while not following.is_over:
            answer = self._session.run(following.opened())
            try:
                for block in self._session.driver.blocks(answer.live):
                    for event in following.feed(block):  # noqa: UP028 - an async generator has no `yield from`
                        yield event
            except Lost:
                pass  # It continues after the last event, on another connection.
            self._session.run(following.pause())

    def close(self) -> None:
        """Close the connections."""
        self._session.driver.close()

    def __enter__(self) -> Tenuto:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
