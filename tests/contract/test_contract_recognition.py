"""Recognition jobs over HTTP: parameters, inputs, the result, parts, prices, and engines that go wrong."""

import json
import math
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator
from servers.processes import until
from servers.recordings import (
    DUAL,
    ENGINES,
    FIRST,
    RATE,
    SECOND,
    body,
    long_recording,
    post,
    recognise,
    recording,
    result,
    texts,
    upload,
)
from tenuto.features.recognition.kind import FIELDS

pytestmark = pytest.mark.variant("database", only="postgresql")

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def payer(operator: Operator) -> Caller:
    """A new account with credit for a few recognition jobs at once."""
    return operator.caller(credit="100")


@ON_ONE_DATABASE
def test_a_job_has_exactly_one_input(payer: Caller) -> None:
    """None, several and what is no array are refused, with all other faults (R14, R111)."""
    ids = [upload(payer) for _ in range(2)]
    missing = {"model": DUAL, "parameters": {"language": ""}}

    assert [[("input_artifact_ids", "wrong_length")]] * 2 == [
        payer.refused(body(*some)) for some in ((), ids)
    ]
    for given in ("artifact", None, {"id": 1}):
        assert [("input_artifact_ids", "wrong_type")] == payer.refused(body() | {"input_artifact_ids": given})
    assert [("input_artifact_ids", "required"), ("parameters.language", "empty")] == payer.refused(missing)


def test_a_job_is_recognised_by_the_name_of_its_file(payer: Caller) -> None:
    """The upload says what its file is called; erasing the job's content erases its title."""
    answer = post(payer, recording(), X_Service_File_Name="%E4%BC%9A%E8%AE%AE%E3%80%801.mp3")
    named = answer.json()["artifact"]
    wrong = [post(payer, recording(), X_Service_File_Name=name) for name in ("a%00b", "x" * 256)]
    job_id = payer.post_job(body(named["id"])).json()["id"]
    payer.wait(job_id)
    search = "/v1/jobs?kind=recognition&q=%E4%BC%9A%E8%AE%AE%201"
    listed = payer.get(search).json()["data"]
    payer.request("DELETE", f"/v1/jobs/{job_id}/content")

    assert "会议\u30001.mp3" == named["name"]
    assert ["会议 1.mp3"] == [one["title"] for one in listed]
    assert [400, 400] == [refusal.status_code for refusal in wrong]
    assert [] == payer.get(search).json()["data"]


def test_an_input_is_the_accounts_own_flac(operator: Operator, payer: Caller) -> None:
    """Foreign, missing, malformed ids and results are refused alike, also beside other faults (R14, R112)."""
    foreign = upload(operator.caller())
    done = payer.wait(recognise(payer))
    spoken = payer.wait(payer.submit("Hold."))
    ids = [foreign, foreign[:-1], foreign[:-1] + "0", "no id", "/etc/passwd", "https://example.org/a.flac"]
    ids += [done["artifacts"][0]["id"], spoken["artifacts"][0]["id"], done["id"]]
    refused = [payer.refused(body(artifact_id)) for artifact_id in ids]
    together = payer.refused(body(foreign, language=7))

    assert [[("input_artifact_ids", "unknown_input")]] * len(ids) == refused
    assert [("input_artifact_ids", "unknown_input"), ("parameters.language", "wrong_type")] == together


@ON_ONE_DATABASE
def test_a_parameter_out_of_its_bounds_is_refused(payer: Caller) -> None:
    """400, nothing stored, no hold (R113, R115–R117, R119)."""
    input_id = upload(payer)
    cases: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"language": "x" * 17}, ("language", "too_long")),
        ({"language": None}, ("language", "wrong_type")),
        ({"context": "x" * 20_001}, ("context", "too_long")),
        ({"hotwords": ["x"] * 201}, ("hotwords", "too_long")),
        ({"hotwords": ["x", ""]}, ("hotwords[1]", "empty")),
        ({"hotwords": ["x" * 101]}, ("hotwords[0]", "too_long")),
        ({"hotwords": "x"}, ("hotwords", "wrong_type")),
        ({"source_offset_seconds": -0.001}, ("source_offset_seconds", "out_of_range")),
        ({"source_offset_seconds": 7200.001}, ("source_offset_seconds", "out_of_range")),
        ({"source_offset_seconds": True}, ("source_offset_seconds", "wrong_type")),
        ({"path": "/srv/a.flac"}, ("path", "unknown_name")),
    ]

    for parameters, (name, code) in cases:
        assert [(f"parameters.{name}", code)] == payer.refused(body(input_id, **parameters))


@ON_ONE_DATABASE
def test_a_parameter_at_its_bounds_is_taken(payer: Caller) -> None:
    """Characters count, not bytes; the offset is echoed and shifts nothing (R113, R115–R118)."""
    parameters: dict[str, Any] = {
        "language": "中" * 16,
        "context": "界" * 20_000,
        "hotwords": ["词" * 100] * 200,
        "source_offset_seconds": 7200,
    }
    job_id = recognise(payer, model=SECOND, **parameters)
    shown = result(payer, payer.wait(job_id))
    first = shown["engines"]["word_timestamps"]["segments"][0]

    assert 7200 == shown["timeline"]["source_offset_seconds"]
    assert 0.2 == first["start"]


def test_context_and_hotwords_reach_no_engine(operator: Operator, payer: Caller) -> None:
    """They stay in the accepted body: what is frozen for the engines does not hold them (R115, R116)."""
    given: dict[str, Any] = {"context": "Kontext-7781", "hotwords": ["Stichwort-7782"], "language": "es"}
    artifact_id = upload(payer)
    job_id = payer.post_job(body(artifact_id, **given)).json()["id"]
    frozen = operator.parameters(job_id)
    kept = operator.row("select body from job where id = :id", id=job_id)["body"]

    assert {"language", "source_offset_seconds", "input"} == set(frozen)
    assert "778" not in json.dumps(frozen["language"])
    assert given == json.loads(kept)["parameters"]
    assert artifact_id == frozen["input"]["artifact_id"]


def test_each_engine_reports_its_language(payer: Caller) -> None:
    """What it was given or detected; `auto` has the second engine detect it, without a warning.

    An engine that does not know the language says so; the first engine gets none (R114).
    """
    detected, given, unknown = (
        result(payer, payer.wait(recognise(payer, language=code))) for code in ("auto", "ja", "Klingon")
    )

    assert [] == detected["warnings"]
    assert ["en", "en"] == [engine["language"] for engine in detected["engines"].values()]
    assert ["en", "ja"] == [engine["language"] for engine in given["engines"].values()]
    assert ["word_timestamps: the language 'Klingon' is not known"] == unknown["warnings"]


def test_the_result_is_as_the_contract_has_it(payer: Caller) -> None:
    """Schema, source, timeline, both engines with pinned revisions; ids, times with three decimals in the
    audio, speakers, labels, no `words` list (R43, R51, R120–R128, R218)."""
    artifact_id = upload(payer, recording(words=4, seconds=4.0))
    job_id = payer.post_job(body(artifact_id, source_offset_seconds=30)).json()["id"]
    operation = payer.wait(job_id)
    shown = result(payer, operation)
    artifact = operation["artifacts"][0]

    assert (1, "application/json") == (len(operation["artifacts"]), artifact["media_type"])
    assert (
        {"schema_version": 1, "duration_ms": 4000, "fake": True}
        == artifact["metadata"]
        == operation["result"]
    )
    assert (1, artifact_id) == (shown["schema_version"], shown["source_artifact_id"])
    assert {"source_offset_seconds": 30} == shown["timeline"]
    assert {"duration_seconds": 4.0, "sample_rate": RATE, "channels": 1} == shown["audio"]
    assert [{"index": 0, "start": 0.0, "end": 4.0}] == shown["parts"]
    assert [] == shown["warnings"]
    assert {role: (name, "1") for role, name in ENGINES.items()} == {
        role: (engine["model_id"], engine["model_revision"]) for role, engine in shown["engines"].items()
    }
    assert texts(shown) == texts(shown, "word_timestamps")
    assert 4 == len(texts(shown))
    first, second = (shown["engines"][role]["segments"] for role in ENGINES)
    assert {"id", "start", "end", "text", "speaker", "type"} == set().union(*first)
    assert {"id", "start", "end", "text"} == set().union(*second)
    for segments in (first, second):
        times = [(segment["start"], segment["end"]) for segment in segments]
        assert list(range(len(segments))) == [segment["id"] for segment in segments]
        assert sorted(times) == times
        assert all(0 <= start <= end <= 4 for start, end in times)
        assert all(round(moment, 3) == moment for pair in times for moment in pair)
    assert {"speech", "silence"} == {segment["type"] for segment in first}
    assert all((segment["speaker"] is None) == (segment["type"] == "silence") for segment in first)
    assert {"S01", "S02"} >= {segment["speaker"] for segment in first} - {None}


@ON_ONE_DATABASE
@pytest.mark.parametrize(("model", "role"), [(FIRST, "segment_text"), (SECOND, "word_timestamps")])
def test_a_single_engine_is_a_model_of_its_own(payer: Caller, model: str, role: str) -> None:
    """It gives the transcript of its role alone, the same that the dual model gives (R128, R136)."""
    content = recording(words=4)
    single, dual = (
        result(payer, payer.wait(recognise(payer, content, model=name))) for name in (model, DUAL)
    )

    assert [role] == [*single["engines"]]
    assert dual["engines"][role] == single["engines"][role]


def test_the_catalog_lists_the_dual_model_and_its_engines(payer: Caller) -> None:
    """Name, price, both engines with their revisions (R123, R125, R132, R133, R136, R190)."""
    listed = {entry["id"]: entry for entry in payer.get("/v1/models").json()["data"]}
    engines = [{"model_id": name, "model_revision": "1"} for name in (FIRST, SECOND)]

    assert {DUAL, FIRST, SECOND} <= set(listed)
    assert [engines, engines[:1], engines[1:]] == [listed[name]["engines"] for name in (DUAL, FIRST, SECOND)]
    for name in (DUAL, FIRST, SECOND):
        entry = listed[name]
        assert ("recognition", "jobs", True) == (entry["kind"], entry["interface"], entry["callable"])
        assert {"currency": "CNY", "unit": "audio_minute", "price": "0.050000", "hold": "6.000000"} == entry[
            "pricing"
        ]
        assert {"input_bytes": 268_435_456, "input_seconds": 7200} == entry["limits"]
    assert (
        not {field.name for field in FIELDS}
        & {"context", "hotwords"}
        & {*listed[DUAL]["honoured_parameters"]}
    )


def test_the_decoded_duration_is_charged(operator: Operator, payer: Caller) -> None:
    """6 CNY are held, then 0.05 CNY a minute settled to the millisecond, the rest given back (R132–R134)."""
    seconds, charged = 90.001, 75_001
    artifact_id = upload(payer, recording(3, seconds=seconds))
    blocked = payer.post_job(body(artifact_id)).json()
    operation = payer.wait(blocked["id"])
    duration_ms = math.ceil(round(seconds * RATE) * 1000 / RATE)

    assert "6.000000" == blocked["billing"]["held"]
    assert charged == math.ceil(duration_ms * 50_000 / 60_000)
    assert {"held": "0.000000", "charged": f"0.{charged:06}", "currency": "CNY"} == operation["billing"]
    assert (100_000_000 - charged, 0) == operator.money(payer)


def test_a_job_has_fourteen_days(operator: Operator, payer: Caller) -> None:
    """From acceptance to the end, queue included (R131)."""
    job_id = recognise(payer)
    row = operator.row("select created_at, deadline_at from job where id = :id", id=job_id)

    assert 14 * DAY_MS == row["deadline_at"] - row["created_at"]


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    ("directive", "code"),
    [
        (1001, "engine_failed"),
        (1003, "engine_crashed"),
        (1009, "engine_failed"),
    ],
)
def test_an_engine_that_goes_wrong_fails_the_job(
    operator: Operator, payer: Caller, directive: int, code: str
) -> None:
    """An invalid transcript is not a result, from either engine; the whole hold is released (R34, R217)."""
    operation = payer.wait(recognise(payer, recording(directive=directive)))

    assert ("failed", code) == (operation["state"], operation["error"]["code"])
    assert [] == operation["artifacts"]
    assert (100_000_000, 0) == operator.money(payer)


def test_eight_run_at_once_and_more_are_queued(operator: Operator, payer: Caller) -> None:
    """Ten jobs: eight have a slot, two wait, none is refused (R130)."""
    slow = upload(payer, recording(directive=1105))
    jobs = [payer.post_job(body(slow)).json()["id"] for _ in range(10)]
    seen = 0
    while any(payer.read(job_id)["state"] in ("queued", "running") for job_id in jobs):
        running = operator.row(
            "select count(*) as rows from slot where lane = 'recognition' and job_id is not null"
        )
        seen = max(seen, running["rows"])

    assert 8 == seen
    assert ["succeeded"] * 10 == [payer.read(job_id)["state"] for job_id in jobs]


def test_a_long_recording_is_one_result_of_parts_whoever_dies(operator: Operator, payer: Caller) -> None:
    """25 minutes: parts of about ten minutes overlap, every word stands once, on one timeline. After a kill
    between chunks the job continues: no finished chunk is transcribed again (R129)."""
    content, words = long_recording(25)
    log = operator.service.log_path
    job_id = recognise(payer, content)
    before = _made(log, job_id, at_least=3)
    _kill_worker(operator.service)
    operation = payer.wait(job_id, timeout_s=120)
    made = _made(log, job_id, at_least=6)

    assert 3 <= len(before) <= 5
    assert ("succeeded", 2) == (operation["state"], operation["attempt"])
    assert len(made) <= 7
    assert 6 == len(set(made))
    shown = result(payer, operation)
    parts = shown["parts"]
    starts = [segment["start"] for segment in shown["engines"]["word_timestamps"]["segments"]]
    assert [0, 1, 2] == [part["index"] for part in parts]
    assert (0.0, 1500.0) == (parts[0]["start"], parts[-1]["end"])
    assert all(5 <= one["end"] - two["start"] <= 10 for one, two in pairwise(parts))
    assert texts(shown) == texts(shown, "word_timestamps")
    assert words == len(texts(shown)) == len(set(texts(shown)))
    assert [1.5 * index + 0.5 for index in range(words)] == pytest.approx(starts, abs=0.021)
    assert {"S01", "S02", None} == {s["speaker"] for s in shown["engines"]["segment_text"]["segments"]}


def _made(log: Path, job_id: str, *, at_least: int) -> list[tuple[str, int]]:
    """The parts that were recognised so far, as often as they were."""

    def made() -> list[tuple[str, int]]:
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"chunk.recognised"' in line]
        return [(line["role"], line["number"]) for line in lines if line["job_id"] == job_id]

    until(lambda: len(made()) >= at_least, 60, "parts are recognised")
    return made()


def _kill_worker(service: Any) -> None:
    """SIGKILL of the worker that `serve` has as its child; it starts another."""
    for child in psutil.Process(service.process.pid).children():
        if "tenuto.process" in child.cmdline():
            os.kill(child.pid, signal.SIGKILL)
