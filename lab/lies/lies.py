"""The lies: for each row of the contract a false answer that a test of that row has to notice.

`python -m lab.lies` tells them one by one and writes down which test noticed; docs/contract.md calls a
row proved only then. What no answer over HTTP can falsify (what is on disk, what was sent to an engine, what
a document says) is tested and not called proved.
"""

import itertools
import json
from typing import Any

import httpx2
from lab.lies.false_answers import (
    ACCEPTED,
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

from servers.lying import Falsify, Lie

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


_OTHER_JOB = "job_01jd4k0a3v6c8e9g2h5m7n0p1q"

BOUNDED = {
    "text": "R68 R69 R70",
    "stream": "R71",
    "voice_id": "R73",
    "lang": "R74",
    "duration_factor": "R75",
    "emotion_voice_id": "R77",
    "emo_alpha": "R78",
    "emo_vector": "R79",
    "use_emo_text emo_text": "R80 R82",
    "emo_text": "R81",
    "interval_silence": "R84",
    "max_text_tokens_per_segment": "R85",
    "top_p": "R88",
    "top_k": "R89",
    "temperature": "R90",
    "repetition_penalty": "R91",
    "language": "R113",
    "context": "R115",
    "hotwords": "R116",
    "source_offset_seconds": "R117",
    "prompt": "R137",
    "width": "R139",
    "height": "R140",
    "num_inference_steps": "R141",
    "guidance_scale": "R142",
    "seed": "R143",
}
"""Parameters, the first of which names the lie, and the rows that bound them."""

_TOLD: dict[tuple[str, str, int], list[tuple[str, str, Falsify]]] = {
    ("POST", JOBS, 202): [
        ("answers are text", "R1", with_header("content-type", "text/plain")),
        ("a model loses its owner", "R4", with_json(having(model=lambda name: name.rpartition("/")[2]))),
        ("some keys are refused", "R10", with_status(400)),
        ("accepted with 200", "R15", with_status(200)),
        ("no place is told", "R16", with_header("location", None)),
        ("another place is told", "R16", with_header("location", "/v1/jobs/1")),
        ("no id is told", "R17", with_json(without("id"))),
        (
            "each answer names another job",
            "R19 R21",
            changing(lambda job, number: job | {"id": f"{_OTHER_JOB[:-4]}{number:04}"}),
        ),
        ("one body makes one job", "R22", _remembering()),
        ("nothing is held", "R133", with_json(having(billing=having(held="0.000000")))),
    ],
    ("GET", ANY, 404): [
        ("strange paths answer", "R2", with_status(200)),
    ],
    ("GET", JOB, 200): [
        ("every job is speech", "R3", with_json(_first_result(having(media_type="audio/wav")))),
        ("jobs are forgotten", "R23", with_status(404)),
        ("no state is told", "R26", with_json(without("state"))),
        ("a success has no result", "R27 R33 R51", with_json(where(is_("succeeded"), having(artifacts=[])))),
        ("nobody says when to look again", "R28", with_header("retry-after", None)),
        (
            "a state of another name",
            "R30 R31",
            with_json(having(state=lambda state: "processing" if state == "running" else state)),
        ),
        (
            "a failed job has a result",
            "R34",
            with_json(
                where(lambda job: job["state"] in ("failed", "cancelled"), having(artifacts=[{"id": "x"}]))
            ),
        ),
        (
            "recovery is a failure",
            "R35 R38",
            with_json(where(is_("recovery_required"), having(state="failed"))),
        ),
        ("recovery runs again", "R36", with_json(where(is_("recovery_required"), having(attempt=2)))),
        (
            "recovery is charged",
            "R37",
            with_json(where(is_("recovery_required"), having(billing=having(charged="0.080000")))),
        ),
        (
            "recovery is an error",
            "R38",
            lambda _, response: (
                answer(response, status=500)
                if response.json().get("state") == "recovery_required"
                else response
            ),
        ),
        ("segments mean success", "R39", with_json(where(is_("running"), having(state="succeeded")))),
        ("an artifact without an id", "R42", with_json(_first_result(without("id")))),
        ("another media type is told", "R43 R107", with_json(_first_result(having(media_type="audio/mpeg")))),
        (
            "a size that is off by one",
            "R44",
            with_json(_first_result(having(size_bytes=lambda size: size + 1))),
        ),
        ("a hash in capitals", "R45", with_json(_first_result(having(sha256=lambda digest: digest.upper())))),
        ("no size of a picture", "R49", with_json(_first_result(having(metadata=without("width"))))),
        (
            "an input among the results",
            "R51",
            with_json(
                where(
                    lambda job: job.get("artifacts") and job["input_artifact_ids"],
                    having(artifacts=lambda all_: [all_[0] | {"media_type": "audio/flac"}, *all_]),
                )
            ),
        ),
        ("a job costs nothing", "R132 R134 R146", with_json(having(billing=having(charged="0.000000")))),
        (
            "no profile is named",
            "R108 R219",
            with_json(where(lambda job: job.get("result"), having(result=having(voice_profile_version="1")))),
        ),
        (
            "no pause is counted",
            "R109",
            with_json(_first_result(having(metadata=without("pause_removed_ms")))),
        ),
        ("a transcript is text", "R120", with_json(_first_result(having(media_type="text/plain")))),
        (
            "a failure keeps its hold",
            "R217",
            with_json(
                where(
                    lambda job: job["state"] in ("failed", "cancelled"),
                    having(billing=having(held="0.050000")),
                )
            ),
        ),
    ],
    ("POST", JOBS, 400): [
        ("names of models are not looked at", "R4 R12 R208", accepting()),
        ("no key is needed", "R9", accepting()),
        ("any body is taken", "R11 R13 R14", accepting()),
        ("unknown parameters are taken", "R25 R99 R147", _parameters_code("unknown_name")),
        ("types are not looked at", "R92", accepting()),
        ("modes of emotion are mixed", "R93 R207", accepting()),
        ("speech takes inputs", "R98", accepting()),
        ("any number of inputs is taken", "R111", accepting()),
        ("any id is an input", "R112", accepting()),
        ("paths are taken", "R119", accepting()),
    ],
    ("GET", ANY, 401): [
        (
            "anybody is let in",
            "R8 R200 R203",
            lambda _, response: answer(response, status=200, content=b'{"object": "list", "data": []}'),
        ),
    ],
    ("POST", JOBS, 401): [
        ("anybody may submit", "R8 R209", accepting()),
    ],
    ("POST", JOBS, 415): [
        ("any media type is taken", "R11", accepting()),
    ],
    ("GET", "/v1/.*%.*", 200): [
        (
            "encoded ids are unknown",
            "R18",
            lambda _, response: answer(response, status=404, content=b'{"error": {"code": "not_found"}}'),
        ),
    ],
    ("POST", JOBS, 409): [
        ("another body is taken", "R20 R210", accepting()),
        ("a conflict has another name", "R20 R210", with_json(having(error=having(code="conflict")))),
    ],
    ("POST", JOBS, 503): [
        ("a model that is down takes jobs", "R24 R213", accepting()),
        ("no time to wait is told", "R213", with_header("retry-after", None)),
    ],
    ("POST", JOBS, 429): [
        ("too much is taken", "R212", accepting()),
        ("no pause is asked for", "R212", with_header("retry-after", None)),
    ],
    ("GET", JOB, 404): [
        (
            "everybody sees every job",
            "R29",
            lambda _, response: answer(response, status=200, content=json.dumps(ACCEPTED).encode()),
        ),
    ],
    ("GET", CONTENT, 503): [
        ("a damaged file is sent", "R32 R46", with_status(200)),
    ],
    ("GET", CONTENT, 200): [
        (
            "one bit is flipped",
            "R46",
            with_content(lambda content: content[:-1] + bytes([content[-1] ^ 1]) if content else content),
        ),
        ("a download of another type", "R47", with_header("content-type", "application/octet-stream")),
        (
            "each download is another",
            "R48",
            with_content(lambda content: content + bytes([next(_numbers) % 256])),
        ),
        ("results are for one key", "R50", with_status(403)),
        ("a file without its end", "R65", with_content(lambda content: content[:-200])),
        (
            "a sample is lost",
            "R102 R103 R104",
            with_content(lambda content: content[:44] + content[46:] + content[-2:]),
        ),
        (
            "pauses are cut from every voice",
            "R105",
            with_content(lambda content: content[: len(content) // 2]),
        ),
        ("the offset is not told", "R118", with_json(having(timeline={}))),
        ("another schema", "R121", with_json(having(schema_version="1"))),
        ("the source is not told", "R122", with_json(without("source_artifact_id"))),
        (
            "the first engine is not named",
            "R123 R218",
            with_json(having(engines=having(segment_text=without("model_revision")))),
        ),
        (
            "nobody speaks",
            "R124",
            with_json(having(engines=having(segment_text=having(segments=each(having(speaker=None)))))),
        ),
        (
            "the second engine is not named",
            "R125 R218",
            with_json(having(engines=having(word_timestamps=without("model_id")))),
        ),
        (
            "no second transcript",
            "R126 R128",
            with_json(having(engines=having(word_timestamps=having(segments=[])))),
        ),
        (
            "words are listed",
            "R127",
            with_json(having(engines=having(word_timestamps=having(segments=each(having(words=[])))))),
        ),
        (
            "the second part is missing",
            "R129",
            with_json(
                having(engines=having(segment_text=having(segments=lambda all_: all_[: len(all_) // 2])))
            ),
        ),
        (
            "each picture is another",
            "R144",
            with_content(lambda content: content + bytes([next(_numbers) % 256])),
        ),
        ("a picture is no PNG", "R145", with_content(lambda content: b"GIF8" + content[4:])),
    ],
    ("GET", CONTENT, 404): [
        ("another account reads", "R50", with_status(200)),
    ],
    ("POST", JOBS, 403): [
        ("a balance is not needed", "R135 R148 R209", accepting()),
    ],
    ("GET", SEGMENTS, 200): [
        ("segments are gone after an end", "R41 R64", with_json(having(data=[]))),
        ("segments have another shape", "R52", with_json(lambda value: value["data"])),
        ("a segment without an attempt", "R53 R58", with_json(listed(without("attempt_id")))),
        ("segments come at the end", "R55", with_json(having(data=[]))),
        ("sequences begin at one", "R56", with_json(listed(having(sequence=lambda number: number + 1)))),
        (
            "segments change their ids",
            "R57",
            changing(
                lambda page, number: (
                    page
                    | {
                        "data": [
                            one | {"segment_id": f"{one['segment_id'][:-4]}{number:04}"}
                            for one in page["data"]
                        ]
                    }
                )
            ),
        ),
        (
            "one attempt for ever",
            "R58",
            with_json(listed(having(attempt_id="attempt_01jd4k0a3v6c8e9g2h5m7n0p1q"))),
        ),
        ("the last segment is missing", "R59 R60", with_json(having(data=lambda all_: all_[:-1]))),
        (
            "segments without a stream",
            "R66",
            with_json(where(lambda page: not page["data"], having(data=[{"segment_id": "x"}]))),
        ),
        ("a segment of another hash", "R67", with_json(listed(having(sha256="0" * 64)))),
    ],
    ("GET", SEGMENT, 200): [
        ("a segment without its head", "R54", with_content(lambda content: content[44:])),
    ],
    ("POST", "/v1/input-artifacts", 400): [
        ("any checksum is right", "R150", with_status(201)),
        ("any sound is taken", "R155", with_status(201)),
    ],
    ("POST", "/v1/input-artifacts", 201): [
        ("an upload is answered 200", "R151", with_status(200)),
        (
            "an upload of another size",
            "R149 R152",
            with_json(having(artifact=having(size_bytes=lambda size: size + 1))),
        ),
        ("few rates are taken", "R156", with_status(400)),
    ],
    ("POST", "/v1/input-artifacts", 415): [
        ("another message", "R153", with_json(having(error=having(message="input must be FLAC")))),
    ],
    ("GET", "/v1/voices", 200): [
        ("voices have another shape", "R158", with_json(lambda page: page["data"])),
        ("pages never end", "R159 R160", with_json(having(next_cursor="again"))),
        ("a voice is missing", "R161", with_json(having(data=lambda all_: all_[1:]))),
        ("voices without ids", "R162", with_json(listed(without("voice_id")))),
        (
            "voices go with their key",
            "R174 R176 R204",
            with_json(having(data=lambda all_: [one for one in all_ if one["kind"] != "own"])),
        ),
    ],
    ("POST", "/v1/voices", 201): [
        ("an upload without an id", "R163 R165", with_json(without("voice_id"))),
    ],
    ("POST", "/v1/voices", 400): [
        ("any recording is taken", "R164 R167 R168 R169 R170", with_status(201)),
    ],
    ("POST", "/v1/voices", 415): [
        ("any media type is a voice", "R167", with_status(201)),
    ],
    ("POST", "/v1/voices", 413): [
        ("any size is taken", "R171", with_status(201)),
    ],
    ("GET", "/v1/voices/[^/]+", 200): [
        ("a voice without a name", "R172", with_json(without("name"))),
    ],
    ("GET", "/v1/voices/[^/]+", 404): [
        ("voices are everybody's", "R173", with_status(200)),
    ],
    ("GET", "/v1/voices/[^/]+/content", 200): [
        ("a recording has another hash", "R175", with_content(lambda content: content[:-1])),
    ],
    ("GET", "/v1/voices", 403): [
        ("voices for everybody", "R177 R178", with_status(200)),
    ],
    ("GET", "/v1/voice-preference", 200): [
        ("a choice is not kept", "R180 R181 R182 R183", with_json(having(data=[], default=None))),
    ],
    ("GET", "/v1/models", 200): [
        ("no models", "R186 R190", with_json(having(data=[]))),
        (
            "a key sees more",
            "R187 R202",
            with_json(having(data=lambda all_: [*all_, {"id": "fake/other", "kind": "speech"}])),
        ),
        ("a model without an interface", "R188", with_json(listed(without("interface")))),
        ("every model is callable", "R189", with_json(listed(having(callable=True, callable_reason=None)))),
        ("prices are not told", "R215", with_json(listed(having(pricing=having(price="0.010000"))))),
    ],
    ("POST", "/v1/chat/completions", 200): [
        ("no choice", "R191 R195", with_json(having(choices=[]))),
        (
            "messages are not heard",
            "R193 R194",
            with_json(having(choices=each(having(message=having(content="yes"))))),
        ),
        ("no usage", "R196", with_json(without("usage"))),
        ("an answer in pieces", "R198", with_header("content-type", "text/event-stream")),
    ],
    ("POST", "/v1/chat/completions", 400): [
        ("private fields are taken", "R199", with_status(200)),
    ],
    ("GET", "/v1/account/ledger", 200): [
        ("free jobs are charged", "R216", with_json(listed(having(amount="0.01")))),
    ],
}
"""By method, path and status of what is falsified: the name of each lie, the rows that it breaks, and how."""

_ALL = [
    *(Lie(name, rows, *told, falsify) for told, lies in _TOLD.items() for name, rows, falsify in lies),
    *(
        Lie(
            f"{names.partition(' ')[0]} has no bounds",
            rows,
            "POST",
            JOBS,
            400,
            _parameters_named(*names.split()),
        )
        for names, rows in BOUNDED.items()
    ),
]
LIES = {lie.name: lie for lie in _ALL}
"""By name."""

assert len(LIES) == len(_ALL), "each lie has a name of its own"
