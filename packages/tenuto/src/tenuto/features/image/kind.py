"""Images: a prompt becomes a PNG. The whole kind: parameters, binding, run, check of the result, price.

The struct declares each parameter once; documents, `openapi.yaml`, the client and the studio are tested
against it. Nothing here knows which models there are, or how an image is made.
"""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault, OperatorError
from tenuto.features.image.png import PngInvalid, read_png
from tenuto.features.image.settings import ImageSettings
from tenuto.host.host import HostResult
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, Kind, SuppliedResult
from tenuto.rules import Integer, Number, Text, by_name, declared, read_fields
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid

MEDIA_TYPE = "image/png"
MAX_PROMPT_BYTES = 20_000
MIN_SIDE = 256
MAX_SIDE = 2048
SIDE_STEP = 8
MAX_STEPS = 100
MAX_GUIDANCE = 20
MAX_SEED = 2**63 - 1

_SIDE = Integer(MIN_SIDE, MAX_SIDE, "pixels", step=SIDE_STEP)


class ImageParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The valid parameters of an image job; None where the caller left it to the model, or to chance."""

    prompt: Annotated[str, Text(MAX_PROMPT_BYTES, "bytes", may_be_blank=False), "What the image shows."]
    width: Annotated[int | None, _SIDE, "Pixels; left out, the model's own size."] = None
    height: Annotated[int | None, _SIDE, "Pixels; left out, the model's own size."] = None
    num_inference_steps: Annotated[int | None, Integer(1, MAX_STEPS), "More steps take longer."] = None
    guidance_scale: Annotated[
        float | None, Number(0, MAX_GUIDANCE), "How closely the prompt is followed."
    ] = None
    seed: Annotated[
        int | None,
        Integer(0, MAX_SEED),
        "The same seed and parameters make the same image.",
    ] = None


FIELDS = declared(ImageParameters)
_BY_NAME = by_name(FIELDS)


def _check(envelope: Envelope) -> tuple[ImageParameters | None, list[Fault]]:
    """The parameters, or None, and every fault of the request apart from its top level."""
    faults: list[Fault] = []
    values = read_fields(_BY_NAME, envelope.parameters, "parameters.", faults)
    parameters = None if faults else ImageParameters(**values)
    if envelope.input_artifact_ids is not None:
        message = "must not be sent with an image job, which has no inputs; leave it out"
        faults.append(Fault("input_artifact_ids", "not_allowed", message))
    return parameters, faults


def _bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: ImageParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """The caller's values, the model's for the rest, and a seed that every attempt will use."""
    values = msgspec.structs.asdict(parameters)
    resolved = {name: defaults.get(name) if value is None else value for name, value in values.items()}
    if resolved["seed"] is None:
        resolved["seed"] = secrets.randbelow(MAX_SEED + 1)
    return Binding(resolved, text=parameters.prompt)


def _run(calls: EngineCalls) -> HostResult:
    """The finished PNG; its metadata contains the measured size and the seed.

    Raises ResultInvalid, and what hosts raise.
    """
    parameters = calls.claim.parameters
    result = calls.run(parameters, {})
    if result.media_type != MEDIA_TYPE:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of {MEDIA_TYPE}")
    try:
        png = read_png(result.content)
    except PngInvalid as error:
        raise ResultInvalid(f"the engine's PNG is invalid: {error}") from error
    wanted = (parameters["width"], parameters["height"])
    if (png.width, png.height) != wanted:
        raise ResultInvalid(f"the engine's PNG is {png.width} × {png.height}, not {wanted[0]} × {wanted[1]}")
    measured = {"width": png.width, "height": png.height, "seed": parameters["seed"]}
    return HostResult(result.media_type, result.content, result.metadata | measured, None)


def _read_result(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """An operator's file as a result. Raises OperatorError."""
    try:
        png = read_png(content)
    except PngInvalid as error:
        raise OperatorError(f"the file is not a result of an image job, which is a PNG: {error}") from error
    return SuppliedResult(content, MEDIA_TYPE, {"width": png.width, "height": png.height}, None)


KIND = Kind(
    name="image",
    place=3,
    media_type=MEDIA_TYPE,
    fields=FIELDS,
    check=_check,
    references=lambda tx, caller, envelope: [],
    bind=_bind,
    run=_run,
    read_result=_read_result,
    price=Price("job", price_micros=50_000, hold_micros=50_000),
    slots=lambda settings: settings.of(ImageSettings).image_slots,
    limits={"prompt_bytes": MAX_PROMPT_BYTES, "side_pixels": MAX_SIDE, "steps": MAX_STEPS},
)
