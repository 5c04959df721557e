"""Three kinds by the names that the core's tests use, each as plain as a kind can be."""

from collections.abc import Mapping
from typing import Any

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault
from tenuto.host.host import HostResult
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, Kind, SuppliedResult
from tenuto.rules import Boolean, Choice, Field, Integer, Number, Text, by_name, read_fields
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid
from tenuto_engine.wav import duration_ms, read_pcm16_wav

from .settings import PlainSettings

FIELDS = (
    Field("text", Text(8192, "bytes"), "What is spoken or drawn.", required=True),
    Field("stream", Boolean(), "Whether segments are shown.", default=False),
    Field("voice_id", Text(100, "characters"), "A voice; there is none.", default=None),
    Field("lang", Choice(("zh", "en")), "The language of the text.", default="zh"),
    Field("top_k", Integer(1, 100), "A number.", default=30),
    Field("temperature", Number(0.1, 2), "Another number.", default=0.8),
)

FREE = Price()


def _check(envelope: Envelope) -> tuple[dict[str, Any] | None, list[Fault]]:
    faults: list[Fault] = []
    sent = read_fields(by_name(FIELDS), envelope.parameters, "parameters.", faults)
    if envelope.input_artifact_ids is not None:
        faults.append(Fault("input_artifact_ids", "not_allowed", "must not be sent"))
    return ({field.name: field.default for field in FIELDS} | sent if not faults else None), faults


def _references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    if "voice_id" not in envelope.parameters:
        return []
    return [Fault("parameters.voice_id", "unknown_voice", "names no voice")]


def _bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: dict[str, Any],
    defaults: Mapping[str, Any],
) -> Binding:
    return Binding(parameters, characters=len(parameters["text"]), text=parameters["text"])


def _run(calls: EngineCalls) -> HostResult:
    parameters = calls.claim.parameters
    result = calls.run(parameters, {}, _unseen if parameters["stream"] else None)
    try:
        took_ms = duration_ms(*read_pcm16_wav(result.content))
    except ValueError as error:
        raise ResultInvalid(f"the engine's WAV is invalid: {error}") from error
    return HostResult(result.media_type, result.content, result.metadata, took_ms)


def _unseen(content: bytes, metadata: dict[str, Any]) -> None:
    """A segment, which is shown to nobody."""


def _read_result(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    return SuppliedResult(content, "audio/wav", {}, duration_ms(*read_pcm16_wav(content)))


def _kind(name: str, place: int, *, price: Price = FREE, has_duration: bool = True, **more: Any) -> Kind:
    return Kind(
        name=name,
        place=place,
        media_type="audio/wav",
        fields=FIELDS,
        check=_check,
        references=_references,
        bind=_bind,
        run=_run,
        read_result=_read_result,
        price=price,
        has_duration=has_duration,
        **more,
    )


SPEECH = _kind("speech", 1, slots=lambda settings: settings.of(PlainSettings).speech_slots, takes_voices=True)
RECOGNITION = _kind(
    "recognition",
    2,
    price=Price("audio_minute", 50_000, 6_000_000),
    slots=lambda settings: settings.of(PlainSettings).recognition_slots,
    takes_inputs=True,
    jobs_at_once=8,
)
IMAGE = _kind("image", 3, has_duration=False, slots=lambda settings: settings.of(PlainSettings).image_slots)
