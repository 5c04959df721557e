"""POST /v1/images/generations: a prompt becomes one to four images, each a job of its own.

The jobs are accepted together or not at all. The images are made from the jobs' verified PNGs, in the
requested form, and sent inside the answer: there is no URL that could expire.
"""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from msgspec import Struct

from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers
from tenuto.api.call import Call
from tenuto.api.json_body import read_json
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, Fault, InvalidRequest
from tenuto.features.openai.names import model_for
from tenuto.features.openai.request_jobs import (
    Submitted,
    ignored_header,
    in_their_words,
    job_headers,
    lenient,
    not_succeeded,
    opened_results,
    submit,
    wait,
    wait_end,
)
from tenuto.features.openai.requests import OpenRequests
from tenuto.features.renditions.renditions import IMAGE_FORMS, PNG, ImageForm, NotRenderable, write_image
from tenuto.features.renditions.routes import scratch_file, send_file
from tenuto.file.blob import BlobReader, BlobStore
from tenuto.file.operations import Opened
from tenuto.job.read import Job
from tenuto.kind.envelope import MAX_MODEL_CHARACTERS
from tenuto.kind.kinds import kinds
from tenuto.rules import Boolean, Choice, Field, Integer, Text, by_name, read_fields, wrong_type

KIND = "image"
DEFAULT_MODEL = "dall-e-2"
"""OpenAI's default, used when a client sends no model."""
MAX_IMAGES = 4
"""Per request."""
MAX_BODY_BYTES = 256 << 10
PIECE_BYTES = 3 << 16
"""How much of a picture is encoded at once: a multiple of 3, so that only the last piece is padded."""
_SEEDS = 1 << 63
_SIZE = re.compile(r"([0-9]{1,6})[xX×]([0-9]{1,6})")
_NO_STREAM = "images are sent whole, not in parts; leave it out"


class _Size:
    """`WIDTHxHEIGHT` as a pair of pixels; None for `auto`."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if value in ("auto", ""):
            return None
        expected = "WIDTHxHEIGHT in pixels, such as 1024x1024, or auto"
        if type(value) is not str or (match := _SIZE.fullmatch(value.strip())) is None:
            faults.append(wrong_type(param, value, expected))
            return None
        fields = by_name(kinds()[KIND].fields)
        sides = (("width", int(match[1])), ("height", int(match[2])))
        found: list[Fault] = []
        for name, side in sides:
            fields[name].rule.read(name, side, found)
        faults.extend(Fault(param, fault.code, f"{fault.param} {fault.message}") for fault in found)
        return dict(sides)


class _Prompt:
    """A prompt, by the same rule as in a job of this kind."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        return by_name(kinds()[KIND].fields)["prompt"].rule.read(param, value, faults)


class _NoParts:
    """The number of partial images, which must be 0."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if value != 0:
            faults.append(Fault(param, "not_allowed", _NO_STREAM))
        return value


_FIELDS = by_name(
    (
        Field(
            "model",
            Text(MAX_MODEL_CHARACTERS, "characters"),
            "A model, or OpenAI's name of one.",
            DEFAULT_MODEL,
        ),
        Field(
            "prompt",
            _Prompt(),
            "What the images show.",
            required=True,
        ),
        Field("n", Integer(1, MAX_IMAGES), "How many images.", 1),
        Field("size", _Size(), "`WIDTHxHEIGHT`; `auto`, the model's own.", "auto"),
        Field("response_format", Choice(("b64_json", "url")), "The image, or a `data:` URL.", "b64_json"),
        Field("output_format", Choice(tuple(IMAGE_FORMS)), "The form of the images.", PNG.name),
        Field("stream", Boolean(), "Not available.", False),
        Field("partial_images", _NoParts(), "Not available.", 0),
    )
)
_FORM = frozenset(("response_format", "output_format", "stream", "partial_images"))
"""Fields that only concern the form of the answer."""
_OTHER_NAMES = {"steps": "num_inference_steps"}
"""Other programs' names for our parameters."""


async def create(call: Call) -> Answer | None:
    """The images, once all jobs behind them have succeeded; 503 `still_running` if they have not in time."""
    caller = await call.authenticate()
    _, value = await read_json(call, MAX_BODY_BYTES)
    parameters = {field.name for field in kinds()[KIND].fields} - {"prompt"}
    sent = lenient(value, dict.fromkeys([*_FIELDS, *parameters, *_OTHER_NAMES]))
    faults: list[Fault] = []
    values = read_fields(_FIELDS, {n: v for n, v in sent.values.items() if n in _FIELDS}, "", faults)
    if values.get("stream"):
        faults.append(Fault("stream", "not_allowed", _NO_STREAM))
    if faults:
        raise InvalidRequest(faults)
    own = {_OTHER_NAMES.get(n, n): v for n, v in sent.values.items() if n not in _FIELDS}
    work = {name: value for name, value in values.items() if name not in _FORM}
    their_names = {ours: theirs for theirs, ours in _OTHER_NAMES.items() if theirs in sent.values}
    try:
        submitted = await submit(
            call, "images/generations", own | work, lambda tx: _bodies(tx, call, caller, values, own)
        )
    except InvalidRequest as error:
        raise in_their_words(error, their_names) from error
    jobs = await wait(call, submitted, wait_end(call))
    headers = ignored_header(sent.ignored)
    if (refusal := not_succeeded(call, jobs)) is not None:
        refusal.headers.extend(headers)
        return refusal
    await _send(call, values, jobs, submitted, headers)
    return None


def _bodies(
    tx: Transaction, call: Call, caller: Caller, values: dict[str, Any], own: dict[str, Any]
) -> list[dict[str, Any]]:
    """The bodies of the jobs, as `POST /v1/jobs` takes them; each image after the first has the next seed."""
    model = model_for(tx, call.service, caller, KIND, values.get("model", DEFAULT_MODEL))
    parameters = {"prompt": values["prompt"], **(values.get("size") or {}), **own}
    count = values.get("n", 1)
    if count == 1:
        return [{"model": model, "parameters": parameters}]
    bodies = []
    for number in range(count):
        one = dict(parameters)
        if type(seed := one.get("seed")) is int and 0 <= seed < _SEEDS:
            one["seed"] = (seed + number) % _SEEDS
        bodies.append({"model": model, "parameters": one, "metadata": {"image": f"{number + 1} of {count}"}})
    return bodies


async def _send(
    call: Call,
    values: dict[str, Any],
    jobs: Sequence[Job],
    submitted: Submitted,
    headers: Headers,
) -> None:
    album = _Album(
        call.service.blobs,
        await opened_results(call, jobs),
        IMAGE_FORMS[values.get("output_format", PNG.name)],
        values.get("response_format") == "url",
        jobs[0].created_at,
    )
    try:
        async with scratch_file(call, album.write) as body:
            headers = [*headers, *job_headers(jobs, submitted)]
            await send_file(call, "application/json", body, headers)
    except NotRenderable as error:
        raise ArtifactUnavailable from error
    if not call.is_gone():
        call.service.part(OpenRequests).note_answered(submitted.job_ids)


class _Album(Struct, frozen=True):
    """The images of one answer."""

    blobs: BlobStore
    opened: Sequence[Opened]
    form: ImageForm
    are_urls: bool
    created_at: int

    def write(self, sink: BinaryIO) -> None:
        """Write the JSON of the answer, one image at a time."""
        name, start = ("url", f"data:{self.form.media_type};base64,") if self.are_urls else ("b64_json", "")
        sink.write(f'{{"created":{self.created_at},"output_format":"{self.form.name}","data":['.encode())
        for number, each in enumerate(self.opened):
            sink.write(f'{"," if number else ""}{{"{name}":"{start}'.encode())
            self._write_image(cast(BinaryIO, BlobReader(self.blobs, each.blob)), sink)
            sink.write(b'"}')
        sink.write(b"]}")

    def _write_image(self, source: BinaryIO, sink: BinaryIO) -> None:
        if self.form is PNG:
            _write_base64(source, sink)
            return
        # Its decoded pixels, which are larger, were in memory as well.
        picture = io.BytesIO()
        write_image(self.form, source, picture)
        picture.seek(0)
        _write_base64(picture, sink)


def _write_base64(source: BinaryIO, sink: BinaryIO) -> None:
    rest = b""
    while piece := source.read(PIECE_BYTES):
        whole = rest + piece
        used = len(whole) // 3 * 3
        sink.write(base64.b64encode(whole[:used]))
        rest = whole[used:]
    sink.write(base64.b64encode(rest))
