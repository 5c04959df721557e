"""A chat or embedding model in a host of our own: a child process of this one, started on the first call.

It knows neither HTTP nor which engine it is. Runs are started from threads, as many as the engine can run at
once; their pieces are passed to the event loop.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tenuto.config import ModelSettings, Settings
from tenuto.errors import Fault, InvalidRequest, ModelUnavailable
from tenuto.features.chat.answers import FINISHED, Choice, Completion, Count, Embeddings, Piece, Usage
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.embeddings_body import EmbeddingRequest
from tenuto.features.chat.settings import ChatSettings
from tenuto.features.chat.vectors import floats_of, in_form
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, EngineFailed, EngineSpec, HostDraining, HostError, HostResult
from tenuto.host.registry import missing_weights
from tenuto.kind.model import MAX_START_FAILURES, Model
from tenuto.logs import get_logger
from tenuto_engine import processor

MAX_THREADS = 2
MISSING = "its weights are not here: tenuto models pull"
BROKEN = "its engine fails to start"
TOO_LONG = "the conversation is longer than the model's context"
# How long an engine that failed to start is not tried again; then one call tries it.
RETRY_S = 60.0
_OLD_ROLES = {"developer": "system"}

_log = get_logger("tenuto.chat")


class _EmbeddedModel:
    """An Engine (see `answers.py`) on a host. `make_host` can provide another host."""

    def __init__(
        self, model: Model, settings: Settings, make_host: Callable[[EngineSpec], ChildHost] = ChildHost
    ) -> None:
        self.concurrency = model.entry.concurrency
        self._model = model
        self._settings = settings
        self._host = make_host(spec_of(model, settings))
        self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix=f"chat-{model.name}")
        # Failed starts in a row, and the time of the last one.
        self._failures = 0
        self._failed_at = 0.0

    def reason(self) -> str | None:
        if fault := processor.fault(self._model.entry.processors):
            return fault
        if missing_weights(self._model.entry, self._settings.cache):
            return MISSING
        if not all(Path(path).expanduser().exists() for path in self._model.entry.paths):
            return MISSING
        if self._failures >= MAX_START_FAILURES and time.monotonic() - self._failed_at < RETRY_S:
            return BROKEN
        return None

    def warm(self) -> None:
        def load() -> None:
            # Logged by `_load`; the first call tries again.
            with suppress(ModelUnavailable):
                self._load()

        if self.reason() is None:
            self._threads.submit(load)

    async def close(self) -> None:
        await asyncio.to_thread(self._host.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(
        self,
        parameters: dict[str, Any],
        inputs: dict[str, bytes],
        param: str,
        on_segment: Callable[[bytes, dict[str, Any]], None],
        cancelled: Cancellation,
    ) -> HostResult:
        """One run, in a thread. `param` names the field whose text may be too long."""
        self._load()
        try:
            return self._host.run(
                parameters,
                inputs,
                on_segment=on_segment,
                on_progress=lambda _: None,
                deadline_s=self._settings.of(ChatSettings).chat_timeout_s,
                cancelled=cancelled,
                grace_s=self._settings.host_grace_s,
            )
        except EngineFailed as error:
            if error.code == "context_exceeded":
                message = error.message if error.public else TOO_LONG
                raise InvalidRequest([Fault(param, "too_long", message)]) from error
            _log.error("chat.engine_failed", model=self._model.name, code=error.code)
            raise ModelUnavailable from error
        except HostError as error:
            if not cancelled.is_set():
                _log.error("chat.host_lost", model=self._model.name, reason=error.message)
            raise ModelUnavailable from error

    def _load(self) -> None:
        """Start the engine unless it is running. ModelUnavailable: it did not start; failures are counted."""
        if self._host.alive:
            return
        try:
            info = self._host.load()
        except HostDraining as error:
            raise ModelUnavailable from error
        except HostError as error:
            self._failures += 1
            self._failed_at = time.monotonic()
            _log.error("engine.not_started", model=self._model.name, failures=self._failures)
            raise ModelUnavailable from error
        self._failures = 0
        network = info.get("network")
        _log.info("engine.loaded", model=self._model.name, pid=self._host.pid, network=network)


class EmbeddedChat(_EmbeddedModel):
    """A ChatEngine (see `answers.py`)."""

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        pieces = []
        async for piece in self.stream(request):
            on_piece(piece)
            pieces.append(piece)
        last = pieces[-1]
        assert last.finish_reason is not None and last.usage is not None, "a host's last piece has both"
        choice = Choice("".join(piece.text for piece in pieces), last.finish_reason)
        return Completion((choice,), last.usage)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        cancelled = Cancellation()

        def on_segment(content: bytes, metadata: dict[str, Any]) -> None:
            piece = Piece(_text(content), usage=_usage(metadata))
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        run = loop.run_in_executor(
            self._threads,
            self._run,
            _parameters(request),
            {"messages": _messages(request)},
            "messages",
            on_segment,
            cancelled,
        )
        run.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield _last(run.result())
        finally:
            if not run.done():
                # The reader has left: cancel the run, whose slot is free once it has stopped.
                cancelled.set()
                await asyncio.gather(run, return_exceptions=True)


class EmbeddedVectors(_EmbeddedModel):
    """An EmbeddingEngine (see `answers.py`): its host returns 32-bit floats, one vector after the other."""

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        self._check(request)
        cancelled = Cancellation()
        run = asyncio.get_running_loop().run_in_executor(self._threads, self._vectors, request, cancelled)
        try:
            return await asyncio.shield(run)
        finally:
            if not run.done():
                # The caller has left: cancel the run, whose slot is free once it has stopped.
                cancelled.set()
                await asyncio.gather(run, return_exceptions=True)

    def _check(self, request: EmbeddingRequest) -> None:
        faults = []
        if not all(isinstance(one, str) for one in request.inputs):
            message = "has token ids, which are of another model's vocabulary; this model takes texts"
            faults.append(Fault("input", "not_allowed", message))
        width = self._model.entry.limits.get("dimensions")
        if request.dimensions not in (None, width):
            message = f"must be {width} or left out: this model's vectors cannot be shortened"
            faults.append(Fault("dimensions", "not_allowed", message))
        if faults:
            raise InvalidRequest(faults)

    def _vectors(self, request: EmbeddingRequest, cancelled: Cancellation) -> Embeddings:
        inputs = {"inputs": msgspec.json.encode(request.inputs)}
        result = self._run({}, inputs, "input", lambda *_: None, cancelled)
        tokens = _count(result.metadata, "prompt_tokens")
        width, rest = divmod(len(result.content), len(request.inputs) * 4)
        if rest or not width:
            raise ModelUnavailable
        rows = range(0, len(result.content), width * 4)
        floats = (floats_of(result.content[start : start + width * 4]).tolist() for start in rows)
        try:
            return Embeddings([in_form(one, request.encoding_format) for one in floats], Usage(tokens))
        except ValueError as error:
            raise ModelUnavailable from error


def spec_of(model: Model, settings: Settings) -> EngineSpec:
    """How the host of one of our own models is started."""
    own = settings.models.get(model.name, ModelSettings())
    options = {
        **model.entry.options,
        "weights": {name: str(settings.cache / name) for name in model.entry.weights},
        "model_revision": model.entry.revision,
        "threads": own.threads or MAX_THREADS,
        "default_tokens": own.answer_tokens,
        "repeat_penalty": own.repeat_penalty,
    }
    return EngineSpec(
        engine=model.entry.engine,
        interpreter=own.interpreter or sys.executable,
        options=options,
        installed=model.entry.installed,
        folder=model.entry.folder,
        network=model.entry.network or own.network,
        load_timeout_s=model.entry.load_timeout_s + (own.ray.wait_s if own.ray is not None else 0),
        ray=own.ray,
    )


def _parameters(request: ChatRequest) -> dict[str, Any]:
    return {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.limit,
        "stop": list(request.stop),
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
    }


def _messages(request: ChatRequest) -> bytes:
    """The conversation as raw bytes: it may be longer than the header of a frame can be."""
    return msgspec.json.encode(
        [{"role": _OLD_ROLES.get(one.role, one.role), "content": one.text} for one in request.messages]
    )


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelUnavailable from error


def _usage(metadata: dict[str, Any]) -> Usage:
    """The usage; engines are not trusted, so anything but two counts makes the model unavailable."""
    prompt, completion = (_count(metadata, name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(prompt, completion)


def _count(metadata: dict[str, Any], name: str) -> int:
    try:
        return msgspec.convert(metadata.get(name), Count)
    except msgspec.ValidationError as error:
        raise ModelUnavailable from error


def _last(result: HostResult) -> Piece:
    reason = result.metadata.get("finish_reason")
    if reason not in FINISHED:
        raise ModelUnavailable
    return Piece(finish_reason=reason, usage=_usage(result.metadata))
