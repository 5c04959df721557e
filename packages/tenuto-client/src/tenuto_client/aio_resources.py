"""What a client can be asked for, a class a noun, on asyncio. Made from `resources.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from tenuto_client import chat, creation, downloads, following, pacing, reads, unspoken
from tenuto_client.aio_jobs import AsyncJob
from tenuto_client.chat import ChatChunk, ChatCompletion
from tenuto_client.creation import Order, Source
from tenuto_client.errors import ChatInterrupted
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
    Model,
    Operation,
    UsageLine,
    Voice,
    VoicePreference,
    VoicePreferences,
)
from tenuto_client.session import AsyncSession
from tenuto_client.steps import Lost, OnBytes, path_of


class _Resource:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def _submit(
        self,
        order: Order,
        parameters: Mapping[str, Any],
        source: Source | None = None,
        on_bytes: OnBytes | None = None,
    ) -> AsyncJob:
        session = self._session
        flow = creation.create(
            session.link, order, parameters, session.models, source=source, on_bytes=on_bytes
        )
        reading, noted = await self._session.run(flow)
        return AsyncJob(session, reading, noted, order.kind)


class Speech(_Resource):
    """Text to speech."""

    async def create(
        self,
        text: str,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **parameters: Unpack[SpeechParameters],
    ) -> AsyncJob:
        """Submit a text of 1 to 8,192 bytes of UTF-8; the result is a WAV.

        Without `model` the first one that is callable speaks. Before it submits a text of which something
        will be left out it warns with UnspokenTextWarning. Raises InvalidRequest (it names every fault),
        InsufficientBalance, NotAllowed, ServiceUnreachable, JournalError.
        """
        unspoken.warn(text, stacklevel=2)
        order = Order("speech", model, metadata, idempotency_key)
        return await self._submit(order, {"text": text, **parameters})


class Recognition(_Resource):
    """Speech to text."""

    async def create(
        self,
        file: Source,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        on_bytes: OnBytes | None = None,
        **parameters: Unpack[RecognitionParameters],
    ) -> AsyncJob:
        """Upload a recording of at most 120 minutes and submit it; the result is JSON, `job.json()`.

        Any audio that soundfile or ffmpeg reads is converted to 16 kHz mono FLAC first. `on_bytes` is told
        how many bytes are uploaded, of how many. Raises AudioError and what `speech.create` does.
        """
        order = Order("recognition", model, metadata, idempotency_key)
        return await self._submit(order, parameters, file, on_bytes)


class Images(_Resource):
    """Text to image."""

    async def create(
        self,
        prompt: str,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **parameters: Unpack[ImageParameters],
    ) -> AsyncJob:
        """Submit a prompt of 1 to 20,000 bytes of UTF-8, in a language of the model; the result is a PNG."""
        order = Order("image", model, metadata, idempotency_key)
        return await self._submit(order, {"prompt": prompt, **parameters})


class Chat:
    """Chat models, in OpenAI's format."""

    def __init__(self, session: AsyncSession) -> None:
        self.completions = Completions(session)


class Completions(_Resource):
    """Answers of chat models."""

    @overload
    async def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: Literal[False] = False,
        **parameters: Unpack[ChatParameters],
    ) -> ChatCompletion: ...

    @overload
    async def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: Literal[True],
        **parameters: Unpack[ChatParameters],
    ) -> AsyncIterator[ChatChunk]: ...

    async def create(
        self,
        messages: Iterable[ChatMessage],
        *,
        model: str | None = None,
        stream: bool = False,
        **parameters: Unpack[ChatParameters],
    ) -> ChatCompletion | AsyncIterator[ChatChunk]:
        """An answer: whole, or with `stream=True` piece by piece.

        A chat has no idempotency key, so it is not sent again once it may have been heard.
        """
        session = self._session
        if model is None and "chat" not in session.models:
            session.models["chat"] = await self._session.run(reads.model_for(session.link, "chat"))
        model = model or session.models["chat"]
        request = chat.request_of(model, messages, parameters, stream=stream)
        if not stream:
            return await self._session.run(chat.complete(session.link, request))
        answer = await self._session.run(chat.opened(session.link, request))
        return self._pieces(answer.live)

    async def _pieces(self, live: Any) -> AsyncIterator[ChatChunk]:
        events = chat.Events()
        try:
            async for block in self._session.driver.blocks(live):
                for chunk in events.feed(block):
                    yield chunk
        except Lost as error:
            raise ChatInterrupted(f"the answer was cut off: {error}") from error
        events.check()


class Voices(_Resource):
    """Whose voice speaks."""

    async def list(self) -> list[Voice]:
        """All voices: everybody's first, then the account's own."""
        return await self._session.run(reads.voices(self._session.link))

    async def get(self, voice_id: str) -> Voice:
        """One voice."""
        return await self._session.run(reads.voice(self._session.link, voice_id))

    async def create(self, file: Source, name: str, *, idempotency_key: str | None = None) -> Voice:
        """Upload a PCM16 WAV of 1 to 15 seconds as an own voice."""
        content = await asyncio.to_thread(creation.content_of, file)
        flow = reads.create_voice(self._session.link, name, content, idempotency_key)
        return await self._session.run(flow)

    async def rename(self, voice_id: str, name: str) -> Voice:
        """Another name for an own voice."""
        return await self._session.run(reads.rename_voice(self._session.link, voice_id, name))

    async def delete(self, voice_id: str) -> None:
        """The end of an own voice; jobs that were accepted keep its recording."""
        await self._session.run(reads.delete_voice(self._session.link, voice_id))

    async def download(self, voice_id: str, path: str | Path) -> Path:
        """Write a voice's recording to a path, checked."""
        found = await self.get(voice_id)
        recording = reads.voice_recording(found)
        source = path_of("voices", voice_id, "content")
        return await self._session.run(
            downloads.save(self._session.link, recording, Path(path), source=source)
        )

    async def preferences(self) -> VoicePreferences:
        """The saved choices. Jobs never look at them."""
        return await self._session.run(reads.preferences(self._session.link))

    async def prefer(self, voice_id: str, content_account: str | None = None) -> VoicePreference:
        """Save a choice for a content account, or as the default."""
        return await self._session.run(reads.save_preference(self._session.link, voice_id, content_account))


class Models(_Resource):
    """What can be used."""

    async def list(self) -> list[Model]:
        """The models that the key may use."""
        return await self._session.run(reads.models(self._session.link))


class Jobs(_Resource):
    """The account's jobs."""

    async def get(self, job_id: str) -> AsyncJob:
        """A job by its id, as it is now. Raises NotFound."""
        return AsyncJob(self._session, await self._session.run(following.show(self._session.link, job_id)))

    async def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        model: str | None = None,
        limit: int = 20,
        after: str | None = None,
    ) -> list[Operation]:
        """The newest jobs first, at most 100; the next page is `after` the last one's id."""
        query = {"state": state, "kind": kind, "model": model}
        flow = reads.jobs(self._session.link, query, after=after, limit=limit)
        found, _ = await self._session.run(flow)
        return found

    async def wait(self, job_id: str, timeout_s: float = pacing.GIVE_UP_S) -> AsyncJob:
        """Wait for a job by its id; see `AsyncJob.wait`."""
        job = await self.get(job_id)
        return await job.wait(timeout_s)


class Account(_Resource):
    """Money and usage; amounts are decimal strings in CNY, days are UTC."""

    async def balance(self) -> Balance:
        """What is available, and what pending jobs hold."""
        return await self._session.run(reads.balance(self._session.link))

    async def ledger(self, *, limit: int = 20, after: str | None = None) -> list[LedgerEntry]:
        """The newest lines first, at most 100; the next page is `after` the last one's id."""
        found, _ = await self._session.run(reads.ledger(self._session.link, after=after, limit=limit))
        return found

    async def usage(self, *, since: str | None = None, until: str | None = None) -> list[UsageLine]:
        """By day, model and key; days as `2026-11-30`, both included; the last 31 when left out."""
        return await self._session.run(reads.usage(self._session.link, since=since, until=until))
