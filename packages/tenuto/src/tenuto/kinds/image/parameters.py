"""Image generation: its parameters, their bounds, and the seed that every image has.

The struct declares each parameter once; documents, `openapi.yaml`, the client and the studio are tested
against it. Sizes and steps that the
caller leaves out are the model's; nothing here knows which models there are, or how an image is made.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from tenuto.bodies.envelope import Envelope
from tenuto.bodies.fields import Integer, Number, Text, by_name, declared, read_fields, wrong_type
from tenuto.errors import Fault

MAX_PROMPT_BYTES = 20_000
MIN_SIDE = 256
MAX_SIDE = 2048
SIDE_STEP = 8
MAX_STEPS = 100
MAX_GUIDANCE = 20
MAX_SEED = 2**63 - 1


_SIDE = Integer(MIN_SIDE, MAX_SIDE, "pixels", step=SIDE_STEP)


class ImageParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The sound parameters of an image job; None where the caller left it to the model, or to chance."""

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


def check(parameters: Any) -> tuple[ImageParameters | None, list[Fault]]:
    """The parameters, or None and all that is wrong with them; faults name `parameters.width` and so on."""
    faults: list[Fault] = []
    if type(parameters) is not dict:
        return None, [wrong_type("parameters", parameters, "an object")]
    kept = read_fields(_BY_NAME, parameters, "parameters.", faults)
    return (None, faults) if faults else (ImageParameters(**kept), faults)


def check_job(envelope: Envelope) -> tuple[ImageParameters | None, list[Fault]]:
    """The parameters of a whole request, and all that is wrong with it beside its top level."""
    parameters, faults = check(envelope.parameters)
    if envelope.input_artifact_ids is not None:
        message = "must not be sent with an image job, which has no inputs; leave it out"
        faults.append(Fault("input_artifact_ids", "not_allowed", message))
    return parameters, faults


def resolved(
    parameters: ImageParameters, defaults: Mapping[str, Any], random_below: Callable[[int], int]
) -> dict[str, Any]:
    """Every parameter with the value that holds for the job: the caller's, else the model's.

    A seed that was left out is drawn now: it is part of what is accepted, and a second attempt has the same.
    """
    values = msgspec.structs.asdict(parameters)
    found = {name: defaults.get(name) if value is None else value for name, value in values.items()}
    if found["seed"] is None:
        found["seed"] = random_below(MAX_SEED + 1)
    return found
