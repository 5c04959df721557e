"""Images: a prompt becomes a PNG."""

import secrets
from collections.abc import Mapping
from typing import Any

from tenuto.accounts.rules import Caller
from tenuto.bodies.envelope import Envelope
from tenuto.catalog.kinds import Binding, Kind
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault
from tenuto.kinds.image.parameters import (
    FIELDS,
    MAX_PROMPT_BYTES,
    MAX_SIDE,
    MAX_STEPS,
    ImageParameters,
    check_job,
    resolved,
)
from tenuto.kinds.image.run import MEDIA_TYPE, run, supplied


def _references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """An image refers to nothing."""
    return []


def _bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: ImageParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """The caller's choices, the model's for the rest, and a seed that every attempt will use."""
    return Binding(resolved(parameters, defaults, secrets.randbelow))


KIND = Kind(
    name="image",
    media_type=MEDIA_TYPE,
    fields=FIELDS,
    check=check_job,
    references=_references,
    bind=_bind,
    run=run,
    read_result=supplied,
    price=Price("job", price_micros=50_000, hold_micros=50_000),
    slots=lambda settings: settings.image_slots,
    limits={"prompt_bytes": MAX_PROMPT_BYTES, "side_pixels": MAX_SIDE, "steps": MAX_STEPS},
)
