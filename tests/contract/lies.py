"""The lies: for each row of the contract a false answer that a test of that row has to notice.

`python -m tests.contract` tells them one by one and writes down which test noticed; docs/contract.md calls a
row proved only then. What no answer over HTTP can falsify (what is on disk, what was sent to an engine, what
a document says) is tested and not called proved.
"""

import itertools
import json
from typing import Any

import httpx2

from servers.lying import (
    ACCEPTED,
    Falsify,
    Lie,
    accepting,
    answer,
    each,
    having,
    listed,
    where,
    with_content,
    with_header,
    with_json,
    with_status,
    without,
)

JOBS = "/v1/jobs"
JOB = "/v1/jobs/[^/]+"
CONTENT = "/v1/artifacts/[^/]+/content"
SEGMENTS = "/v1/jobs/[^/]+/audio-segments"
SEGMENT = "/v1/jobs/[^/]+/audio-segments/[^/]+/content"
ANY = ".*"

_numbers = itertools.count()


def is_(state: str) -> Any:
    """Whether an operation is in a state."""
    return lambda operation: operation.get("state") == state


def changing(edit: Any) -> Falsify:
    """A field that is another each time."""
    return with_json(lambda value: edit(value, next(_numbers)))


def _remembering() -> Falsify:
    """The first operation of a body, whatever its key."""
    seen: dict[bytes, bytes] = {}

    def falsify(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        return answer(response, content=seen.setdefault(request.content, response.content))

    return falsify


def _first_result(edit: Any) -> Any:
    return where(lambda job: job.get("artifacts"), having(artifacts=lambda all_: [edit(all_[0]), *all_[1:]]))


def _parameters_code(code: str) -> Falsify:
    """Faults of one kind are not noticed."""

    def falsify(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        details = response.json()["error"].get("details", [])
        return accepting()(request, response) if any(fault["code"] == code for fault in details) else response

    return falsify


def _parameters_named(*names: str) -> Falsify:
    """Faults of some parameters are not noticed."""

    def falsify(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        params = {fault["param"].partition("[")[0] for fault in response.json()["error"].get("details", [])}
        return (
            accepting()(request, response) if params & {f"parameters.{name}" for name in names} else response
        )

    return falsify


def _bound(rows: str, *names: str) -> Lie:
    return Lie(f"{names[0]} has no bounds", rows, "POST", JOBS, 400, _parameters_named(*names))


_OTHER_JOB = "job_01jd4k0a3v6c8e9g2h5m7n0p1q"

_SUBMIT = [
    Lie("answers are text", "R1", "POST", JOBS, 202, with_header("content-type", "text/plain")),
    Lie("strange paths answer", "R2", "GET", ANY, 404, with_status(200)),
    Lie(
        "every job is speech", "R3", "GET", JOB, 200, with_json(_first_result(having(media_type="audio/wav")))
    ),
    Lie(
        "a model loses its owner",
        "R4",
        "POST",
        JOBS,
        202,
        with_json(having(model=lambda name: name.rpartition("/")[2])),
    ),
    Lie("names of models are not looked at", "R4 R12 R208", "POST", JOBS, 400, accepting()),
    Lie(
        "anybody is let in",
        "R8 R200 R203",
        "GET",
        ANY,
        401,
        lambda _, response: answer(response, status=200, content=b'{"object": "list", "data": []}'),
    ),
    Lie("anybody may submit", "R8 R209", "POST", JOBS, 401, accepting()),
    Lie("no key is needed", "R9", "POST", JOBS, 400, accepting()),
    Lie("some keys are refused", "R10", "POST", JOBS, 202, with_status(400)),
    Lie("any body is taken", "R11 R13 R14", "POST", JOBS, 400, accepting()),
    Lie("any media type is taken", "R11", "POST", JOBS, 415, accepting()),
    Lie("accepted with 200", "R15", "POST", JOBS, 202, with_status(200)),
    Lie("no place is told", "R16", "POST", JOBS, 202, with_header("location", None)),
    Lie("another place is told", "R16", "POST", JOBS, 202, with_header("location", "/v1/jobs/1")),
    Lie("no id is told", "R17", "POST", JOBS, 202, with_json(without("id"))),
    Lie(
        "encoded ids are unknown",
        "R18",
        "GET",
        "/v1/.*%.*",
        200,
        lambda _, response: answer(response, status=404, content=b'{"error": {"code": "not_found"}}'),
    ),
    Lie(
        "each answer names another job",
        "R19 R21",
        "POST",
        JOBS,
        202,
        changing(lambda job, number: job | {"id": f"{_OTHER_JOB[:-4]}{number:04}"}),
    ),
    Lie("another body is taken", "R20 R210", "POST", JOBS, 409, accepting()),
    Lie(
        "a conflict has another name",
        "R20 R210",
        "POST",
        JOBS,
        409,
        with_json(having(error=having(code="conflict"))),
    ),
    Lie("one body makes one job", "R22", "POST", JOBS, 202, _remembering()),
    Lie("jobs are forgotten", "R23", "GET", JOB, 200, with_status(404)),
    Lie("a model that is down takes jobs", "R24 R213", "POST", JOBS, 503, accepting()),
    Lie("no time to wait is told", "R213", "POST", JOBS, 503, with_header("retry-after", None)),
    Lie("too much is taken", "R212", "POST", JOBS, 429, accepting()),
    Lie("no pause is asked for", "R212", "POST", JOBS, 429, with_header("retry-after", None)),
    Lie("unknown parameters are taken", "R25 R99 R147", "POST", JOBS, 400, _parameters_code("unknown_name")),
]

_READ = [
    Lie("no state is told", "R26", "GET", JOB, 200, with_json(without("state"))),
    Lie(
        "a success has no result",
        "R27 R33 R51",
        "GET",
        JOB,
        200,
        with_json(where(is_("succeeded"), having(artifacts=[]))),
    ),
    Lie("nobody says when to look again", "R28", "GET", JOB, 200, with_header("retry-after", None)),
    Lie(
        "everybody sees every job",
        "R29",
        "GET",
        JOB,
        404,
        lambda _, response: answer(response, status=200, content=json.dumps(ACCEPTED).encode()),
    ),
    Lie(
        "a state of another name",
        "R30 R31",
        "GET",
        JOB,
        200,
        with_json(having(state=lambda state: "processing" if state == "running" else state)),
    ),
    Lie("a damaged file is sent", "R32 R46", "GET", CONTENT, 503, with_status(200)),
    Lie(
        "a failed job has a result",
        "R34",
        "GET",
        JOB,
        200,
        with_json(
            where(lambda job: job["state"] in ("failed", "cancelled"), having(artifacts=[{"id": "x"}]))
        ),
    ),
    Lie(
        "recovery is a failure",
        "R35 R38",
        "GET",
        JOB,
        200,
        with_json(where(is_("recovery_required"), having(state="failed"))),
    ),
    Lie(
        "recovery runs again",
        "R36",
        "GET",
        JOB,
        200,
        with_json(where(is_("recovery_required"), having(attempt=2))),
    ),
    Lie(
        "recovery is charged",
        "R37",
        "GET",
        JOB,
        200,
        with_json(where(is_("recovery_required"), having(billing=having(charged="0.080000")))),
    ),
    Lie(
        "recovery is an error",
        "R38",
        "GET",
        JOB,
        200,
        lambda _, response: (
            answer(response, status=500) if response.json().get("state") == "recovery_required" else response
        ),
    ),
    Lie(
        "segments mean success",
        "R39",
        "GET",
        JOB,
        200,
        with_json(where(is_("running"), having(state="succeeded"))),
    ),
    Lie("an artifact without an id", "R42", "GET", JOB, 200, with_json(_first_result(without("id")))),
    Lie(
        "another media type is told",
        "R43 R107",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(media_type="audio/mpeg"))),
    ),
    Lie(
        "a size that is off by one",
        "R44",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(size_bytes=lambda size: size + 1))),
    ),
    Lie(
        "a hash in capitals",
        "R45",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(sha256=lambda digest: digest.upper()))),
    ),
    Lie(
        "one bit is flipped",
        "R46",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: content[:-1] + bytes([content[-1] ^ 1]) if content else content),
    ),
    Lie(
        "a download of another type",
        "R47",
        "GET",
        CONTENT,
        200,
        with_header("content-type", "application/octet-stream"),
    ),
    Lie(
        "each download is another",
        "R48",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: content + bytes([next(_numbers) % 256])),
    ),
    Lie(
        "no size of a picture",
        "R49",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(metadata=without("width")))),
    ),
    Lie("results are for one key", "R50", "GET", CONTENT, 200, with_status(403)),
    Lie("another account reads", "R50", "GET", CONTENT, 404, with_status(200)),
    Lie(
        "an input among the results",
        "R51",
        "GET",
        JOB,
        200,
        with_json(
            where(
                lambda job: job.get("artifacts") and job["input_artifact_ids"],
                having(artifacts=lambda all_: [all_[0] | {"media_type": "audio/flac"}, *all_]),
            )
        ),
    ),
    Lie(
        "a job costs nothing",
        "R132 R134 R146",
        "GET",
        JOB,
        200,
        with_json(having(billing=having(charged="0.000000"))),
    ),
    Lie("nothing is held", "R133", "POST", JOBS, 202, with_json(having(billing=having(held="0.000000")))),
    Lie("a balance is not needed", "R135 R148 R209", "POST", JOBS, 403, accepting()),
]

_SEGMENTS = [
    Lie("segments are gone after an end", "R41 R64", "GET", SEGMENTS, 200, with_json(having(data=[]))),
    Lie("segments have another shape", "R52", "GET", SEGMENTS, 200, with_json(lambda value: value["data"])),
    Lie(
        "a segment without an attempt",
        "R53 R58",
        "GET",
        SEGMENTS,
        200,
        with_json(listed(without("attempt_id"))),
    ),
    Lie("a segment without its head", "R54", "GET", SEGMENT, 200, with_content(lambda content: content[44:])),
    Lie("segments come at the end", "R55", "GET", SEGMENTS, 200, with_json(having(data=[]))),
    Lie(
        "sequences begin at one",
        "R56",
        "GET",
        SEGMENTS,
        200,
        with_json(listed(having(sequence=lambda number: number + 1))),
    ),
    Lie(
        "segments change their ids",
        "R57",
        "GET",
        SEGMENTS,
        200,
        changing(
            lambda page, number: (
                page
                | {
                    "data": [
                        one | {"segment_id": f"{one['segment_id'][:-4]}{number:04}"} for one in page["data"]
                    ]
                }
            )
        ),
    ),
    Lie(
        "one attempt for ever",
        "R58",
        "GET",
        SEGMENTS,
        200,
        with_json(listed(having(attempt_id="attempt_01jd4k0a3v6c8e9g2h5m7n0p1q"))),
    ),
    Lie(
        "the last segment is missing",
        "R59 R60",
        "GET",
        SEGMENTS,
        200,
        with_json(having(data=lambda all_: all_[:-1])),
    ),
    Lie("a file without its end", "R65", "GET", CONTENT, 200, with_content(lambda content: content[:-200])),
    Lie(
        "segments without a stream",
        "R66",
        "GET",
        SEGMENTS,
        200,
        with_json(where(lambda page: not page["data"], having(data=[{"segment_id": "x"}]))),
    ),
    Lie("a segment of another hash", "R67", "GET", SEGMENTS, 200, with_json(listed(having(sha256="0" * 64)))),
]

_SPEECH = [
    _bound("R68 R69 R70", "text"),
    _bound("R71", "stream"),
    _bound("R73", "voice_id"),
    _bound("R74", "lang"),
    _bound("R75", "duration_factor"),
    _bound("R77", "emotion_voice_id"),
    _bound("R78", "emo_alpha"),
    _bound("R79", "emo_vector"),
    _bound("R80 R82", "use_emo_text", "emo_text"),
    _bound("R81", "emo_text"),
    _bound("R84", "interval_silence"),
    _bound("R85", "max_text_tokens_per_segment"),
    _bound("R88", "top_p"),
    _bound("R89", "top_k"),
    _bound("R90", "temperature"),
    _bound("R91", "repetition_penalty"),
    Lie("types are not looked at", "R92", "POST", JOBS, 400, accepting()),
    Lie("modes of emotion are mixed", "R93 R207", "POST", JOBS, 400, accepting()),
    Lie("speech takes inputs", "R98", "POST", JOBS, 400, accepting()),
    Lie(
        "no profile is named",
        "R108 R219",
        "GET",
        JOB,
        200,
        with_json(where(lambda job: job.get("result"), having(result=having(voice_profile_version="1")))),
    ),
    Lie(
        "no pause is counted",
        "R109",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(metadata=without("pause_removed_ms")))),
    ),
    Lie(
        "a sample is lost",
        "R102 R103 R104",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: content[:44] + content[46:] + content[-2:]),
    ),
    Lie(
        "pauses are cut from every voice",
        "R105",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: content[: len(content) // 2]),
    ),
]

_RECOGNITION = [
    Lie("any number of inputs is taken", "R111", "POST", JOBS, 400, accepting()),
    Lie("any id is an input", "R112", "POST", JOBS, 400, accepting()),
    _bound("R113", "language"),
    _bound("R115", "context"),
    _bound("R116", "hotwords"),
    _bound("R117", "source_offset_seconds"),
    Lie("paths are taken", "R119", "POST", JOBS, 400, accepting()),
    Lie("the offset is not told", "R118", "GET", CONTENT, 200, with_json(having(timeline={}))),
    Lie(
        "a transcript is text",
        "R120",
        "GET",
        JOB,
        200,
        with_json(_first_result(having(media_type="text/plain"))),
    ),
    Lie("another schema", "R121", "GET", CONTENT, 200, with_json(having(schema_version="1"))),
    Lie("the source is not told", "R122", "GET", CONTENT, 200, with_json(without("source_artifact_id"))),
    Lie(
        "the first engine is not named",
        "R123 R218",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(segment_text=without("model_revision")))),
    ),
    Lie(
        "nobody speaks",
        "R124",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(segment_text=having(segments=each(having(speaker=None)))))),
    ),
    Lie(
        "the second engine is not named",
        "R125 R218",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(word_timestamps=without("model_id")))),
    ),
    Lie(
        "no second transcript",
        "R126 R128",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(word_timestamps=having(segments=[])))),
    ),
    Lie(
        "words are listed",
        "R127",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(word_timestamps=having(segments=each(having(words=[])))))),
    ),
    Lie(
        "the second part is missing",
        "R129",
        "GET",
        CONTENT,
        200,
        with_json(having(engines=having(segment_text=having(segments=lambda all_: all_[: len(all_) // 2])))),
    ),
]

_IMAGES = [
    _bound("R137", "prompt"),
    _bound("R139", "width"),
    _bound("R140", "height"),
    _bound("R141", "num_inference_steps"),
    _bound("R142", "guidance_scale"),
    _bound("R143", "seed"),
    Lie(
        "each picture is another",
        "R144",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: content + bytes([next(_numbers) % 256])),
    ),
    Lie(
        "a picture is no PNG",
        "R145",
        "GET",
        CONTENT,
        200,
        with_content(lambda content: b"GIF8" + content[4:]),
    ),
]

_UPLOADS = [
    Lie("any checksum is right", "R150", "POST", "/v1/input-artifacts", 400, with_status(201)),
    Lie("an upload is answered 200", "R151", "POST", "/v1/input-artifacts", 201, with_status(200)),
    Lie(
        "an upload of another size",
        "R149 R152",
        "POST",
        "/v1/input-artifacts",
        201,
        with_json(having(artifact=having(size_bytes=lambda size: size + 1))),
    ),
    Lie(
        "another message",
        "R153",
        "POST",
        "/v1/input-artifacts",
        415,
        with_json(having(error=having(message="input must be FLAC"))),
    ),
    Lie("any sound is taken", "R155", "POST", "/v1/input-artifacts", 400, with_status(201)),
    Lie("few rates are taken", "R156", "POST", "/v1/input-artifacts", 201, with_status(400)),
]

_VOICES = [
    Lie("voices have another shape", "R158", "GET", "/v1/voices", 200, with_json(lambda page: page["data"])),
    Lie("pages never end", "R159 R160", "GET", "/v1/voices", 200, with_json(having(next_cursor="again"))),
    Lie(
        "a voice is missing", "R161", "GET", "/v1/voices", 200, with_json(having(data=lambda all_: all_[1:]))
    ),
    Lie("voices without ids", "R162", "GET", "/v1/voices", 200, with_json(listed(without("voice_id")))),
    Lie("an upload without an id", "R163 R165", "POST", "/v1/voices", 201, with_json(without("voice_id"))),
    Lie("any recording is taken", "R164 R167 R168 R169 R170", "POST", "/v1/voices", 400, with_status(201)),
    Lie("any media type is a voice", "R167", "POST", "/v1/voices", 415, with_status(201)),
    Lie("any size is taken", "R171", "POST", "/v1/voices", 413, with_status(201)),
    Lie("a voice without a name", "R172", "GET", "/v1/voices/[^/]+", 200, with_json(without("name"))),
    Lie("voices are everybody's", "R173", "GET", "/v1/voices/[^/]+", 404, with_status(200)),
    Lie(
        "voices go with their key",
        "R174 R176 R204",
        "GET",
        "/v1/voices",
        200,
        with_json(having(data=lambda all_: [one for one in all_ if one["kind"] != "own"])),
    ),
    Lie(
        "a recording has another hash",
        "R175",
        "GET",
        "/v1/voices/[^/]+/content",
        200,
        with_content(lambda content: content[:-1]),
    ),
    Lie("voices for everybody", "R177 R178", "GET", "/v1/voices", 403, with_status(200)),
    Lie(
        "a choice is not kept",
        "R180 R181 R182 R183",
        "GET",
        "/v1/voice-preference",
        200,
        with_json(having(data=[], default=None)),
    ),
]

_CATALOG_AND_CHAT = [
    Lie("no models", "R186 R190", "GET", "/v1/models", 200, with_json(having(data=[]))),
    Lie(
        "a key sees more",
        "R187 R202",
        "GET",
        "/v1/models",
        200,
        with_json(having(data=lambda all_: [*all_, {"id": "fake/other", "kind": "speech"}])),
    ),
    Lie(
        "a model without an interface",
        "R188",
        "GET",
        "/v1/models",
        200,
        with_json(listed(without("interface"))),
    ),
    Lie(
        "every model is callable",
        "R189",
        "GET",
        "/v1/models",
        200,
        with_json(listed(having(callable=True, callable_reason=None))),
    ),
    Lie("no choice", "R191 R195", "POST", "/v1/chat/completions", 200, with_json(having(choices=[]))),
    Lie(
        "messages are not heard",
        "R193 R194",
        "POST",
        "/v1/chat/completions",
        200,
        with_json(having(choices=each(having(message=having(content="yes"))))),
    ),
    Lie("no usage", "R196", "POST", "/v1/chat/completions", 200, with_json(without("usage"))),
    Lie(
        "an answer in pieces",
        "R198",
        "POST",
        "/v1/chat/completions",
        200,
        with_header("content-type", "text/event-stream"),
    ),
    Lie("private fields are taken", "R199", "POST", "/v1/chat/completions", 400, with_status(200)),
    Lie(
        "prices are not told",
        "R215",
        "GET",
        "/v1/models",
        200,
        with_json(listed(having(pricing=having(price="0.010000")))),
    ),
    Lie(
        "free jobs are charged",
        "R216",
        "GET",
        "/v1/account/ledger",
        200,
        with_json(listed(having(amount="0.01"))),
    ),
    Lie(
        "a failure keeps its hold",
        "R217",
        "GET",
        JOB,
        200,
        with_json(
            where(
                lambda job: job["state"] in ("failed", "cancelled"), having(billing=having(held="0.050000"))
            )
        ),
    ),
]

_ALL = [
    *_SUBMIT,
    *_READ,
    *_SEGMENTS,
    *_SPEECH,
    *_RECOGNITION,
    *_IMAGES,
    *_UPLOADS,
    *_VOICES,
    *_CATALOG_AND_CHAT,
]
LIES = {lie.name: lie for lie in _ALL}
"""By name."""

assert len(LIES) == len(_ALL), "each lie has a name of its own"
