"""Batches and watched folders: a file and a report line for every line, once, whatever is wrong."""

import csv
import errno
import hashlib
import io
import json
import os
from pathlib import Path

import pytest

from client.conftest import JOB, SOUND, VirtualClock, accepted, client, content, sound, succeeded
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.scripted import LOST, Asked, Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import (
    AuthenticationFailed,
    InsufficientBalance,
    InvalidSetting,
    JournalError,
    RateLimited,
    ServiceUnreachable,
    Tenuto,
    batch,
    inbox,
    placing,
    tables,
)
from tenuto_client.batch import REPORT, Plan
from tenuto_client.inbox import SETTLE_S, Inbox
from tenuto_client.lines import NOT_SUBMITTED, BatchReport, Line, read_lines

__all__ = ["run"]

BROKE = {"error": {"code": "insufficient_balance", "message": "Not enough.", "balance": {}}}
WRONG = {
    "lost": "no such file",
    "fast": "duration_factor must be a number, not 'fast'",
    "both": "exactly one of text, prompt and file, and has 2",
    "": "has no id",
    "../up": "cannot name a file",
    "Morning": "line 11: the id Morning is already used in line 2",
    "wrong": "duration_factor",
    "fails": "failed",
}
"""What the report says of lines that have no file."""
SPOKEN = {"id": "a", "text": "Hold.", "model": "fake/speech"}


def report_of(folder: Path) -> dict[str, dict[str, str]]:
    """`report.csv` by id."""
    with (folder / REPORT).open(newline="", encoding="utf-8") as file:
        return {line["id"]: line for line in csv.DictReader(file)}


def count(caller: Caller) -> int:
    return len(caller.get("/v1/jobs?limit=100").json()["data"])


@ON_ONE_DATABASE
def test_every_kind_of_line_has_its_file_and_a_bad_one_stops_no_other(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "talk.wav").write_bytes(sound(2))
    rows = [
        ["id", "text", "prompt", "file", "duration_factor", "width", "height", "voice_id"],
        ["morning", "Good morning.", "", "", "1.3", "", "", ""],
        ["清晨", "早上好。", "", "", "", "", "", ""],
        ["lake", "", "A lake.", "", "", "256", "320", ""],
        ["talk", "", "", "talk.wav", "", "", "", ""],
        ["lost", "", "", "lost.wav", "", "", "", ""],
        ["fast", "Fast.", "", "", "fast", "", "", ""],
        ["both", "Hold.", "A note.", "", "", "", "", ""],
        ["", "Hold.", "", "", "", "", "", ""],
        ["../up", "Hold.", "", "", "", "", "", ""],
        ["Morning", "Again.", "", "", "", "", "", ""],
        ["wrong", "Hold.", "", "", "9", "", "", ""],
        ["fails", "[fake:raise] Hold.", "", "", "", "", "", ""],
    ]
    with (tmp_path / "lines.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    at = {"url": service.url, "key": caller.key}
    words = ("batch", "lines.csv", "-o", "out", "--to", "srt")
    first = run(*words, **at)
    report, jobs = report_of(tmp_path / "out"), count(caller)
    second = run(*words, "--json", **at)
    again = run(*words, "--again", "-q", **at)

    done = {name: line["file"] for name, line in report.items() if line["file"]}
    assert (1, "out/report.csv\n") == first[:2]
    assert done == {
        "morning": "morning.wav",
        "清晨": "清晨.wav",
        "lake": "lake.png",
        "talk": "talk.srt",
    }
    assert [] == [
        name
        for name, file in done.items()
        if hashlib.sha256((tmp_path / "out" / file).read_bytes()).hexdigest() != report[name]["sha256"]
    ]
    assert "0.050000" == report["lake"]["charge"]
    assert ["failed"] == [line["state"] for line in report.values() if line["job"] and not line["file"]]
    assert [] == [name for name, text in WRONG.items() if text not in report[name]["error"]]
    assert "line 9: has no id" in first[2] and "4 of 12 lines have their file, 0.05" in first[2]
    assert (1, 12, 1) == (second[0], len(json.loads(second[1])["lines"]), again[0])
    # The second run made none; the third made another one for the line whose job had failed.
    assert (5, 6) == (jobs, count(caller))
    assert "zh" == caller.get(f"/v1/jobs/{report['清晨']['job']}/request").json()["parameters"]["lang"]


@ON_ONE_DATABASE
def test_a_batch_replaces_only_what_it_wrote(service: RunningService, caller: Caller, tmp_path: Path) -> None:
    """A file of anybody else's keeps its name and content, also one that was changed since; the result gets a
    number, and the report one name. A text that was changed back has its own file again, and so has a line
    whose file was removed; neither makes a job."""
    theirs = {"a.wav": b"my own recording", "a-2.wav": b"another", REPORT: b"my own report"}
    for name, text in theirs.items():
        (tmp_path / name).write_bytes(text)
    (tmp_path / "b.wav").symlink_to(tmp_path / "elsewhere.wav")
    with Tenuto(caller.key, service.url) as client:

        def batch(text: str) -> BatchReport:
            lines = [SPOKEN, {**SPOKEN, "id": "b"}, {**SPOKEN, "id": "c", "text": text}]
            return client.batch(lines, tmp_path)

        first, jobs = batch("Hold."), count(caller)
        (tmp_path / "b-2.wav").unlink()
        reports = [first, *(batch(text) for text in ("Hold.", "Stop.", "Hold."))]
        (tmp_path / "c.wav").write_bytes(b"edited")
        edited = batch("Stop.")
        other = client.batch([{**SPOKEN, "text": "Other."}], tmp_path)

    assert (3, 5) == (jobs, count(caller)) and (tmp_path / "b-2.wav").is_file()
    assert [["a-3.wav", "b-2.wav", "c.wav"]] * 4 == [[each.file for each in one.results] for one in reports]
    assert reports[0].results == reports[1].results == reports[3].results != reports[2].results
    assert ["a-3.wav", "b-2.wav", "c-2.wav"] == [each.file for each in edited.results]
    sha256 = hashlib.sha256((tmp_path / "c-2.wav").read_bytes()).hexdigest()
    assert reports[2].results[2].sha256 == edited.results[2].sha256 == sha256
    assert ["a-4.wav"] == [each.file for each in other.results]
    assert {"report-2.csv"} == {one.path.name for one in (*reports, edited, other)}
    assert theirs | {"c.wav": b"edited"} == {
        name: (tmp_path / name).read_bytes() for name in (*theirs, "c.wav")
    }
    assert not (tmp_path / "elsewhere.wav").exists()
    assert [".tenuto"] == [path.name for path in tmp_path.iterdir() if path.name[0] == "."]


def test_a_file_has_its_name_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Android and in network folders."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", refuse)
    (tmp_path / "a.wav").write_bytes(b"theirs")
    (tmp_path / "scratch").write_bytes(b"ours")
    placed = placing.place(tmp_path / "scratch", tmp_path / "a.wav")

    assert "a-2.wav" == placed.name
    assert {"a.wav": b"theirs", "a-2.wav": b"ours"} == {
        path.name: path.read_bytes() for path in tmp_path.iterdir()
    }


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("\t=1", "'\t'=1"),
        ("  =1", "'  =1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("a, =b", "a,' =b"),
        ("a=b - c", "a=b - c"),
        ("-1.50", "-1.50"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(cell: object, written: str) -> None:
    """As OWASP lists them, also behind what a spreadsheet may take for the end of a cell; numbers stay."""
    assert written == tables.inert(cell)
    assert [["x", written]] == list(csv.reader(io.StringIO(tables.written([["x", cell]]), newline="")))


def test_a_report_has_no_formulas(clock: VirtualClock, tmp_path: Path) -> None:
    refusal = Reply(400, {"error": {"code": "invalid_request", "message": '=HYPERLINK("x")', "details": {}}})
    with ScriptedService([refusal]) as service, client(service, clock) as tenuto:
        report = tenuto.batch([{"id": "=1+1", "text": "x", "model": "m"}], tmp_path)
    _, row = csv.reader(report.path.open(newline=""))

    assert "'=1+1" == row[1] and not [cell for cell in row if cell.startswith(tuple("=+-@\t\r"))]
    assert ["=1+1"] == [each.id for each in report.results]


def test_patience_ends_with_the_report_written(clock: VirtualClock, tmp_path: Path) -> None:
    """Two hours of 429, ten minutes without an answer; a later run sends the same request (R222, P9)."""
    busy = Reply(429, {"error": {"code": "rate_limited", "message": "busy"}}, {"Retry-After": "120"})
    with ScriptedService([busy]) as service:
        with client(service, clock) as tenuto, pytest.raises(RateLimited):
            tenuto.batch([SPOKEN], tmp_path)
        waited_s, state = sum(clock.slept), report_of(tmp_path)["a"]["state"]
        service._replies = [Reply(is_lost=True)]
        with client(service, clock) as tenuto, pytest.raises(ServiceUnreachable):
            tenuto.batch([SPOKEN], tmp_path)
        outage_s = sum(clock.slept) - waited_s
        service._replies = [accepted(), succeeded(), content()]
        with client(service, clock) as tenuto:
            report = tenuto.batch([SPOKEN], tmp_path)
    keys = {asked.key for asked in service.asked if asked.method == "POST"}

    assert (7080, 7200) <= (waited_s, 7200) and waited_s <= 7200 and 580 < outage_s <= 600
    assert NOT_SUBMITTED == state and report.has_succeeded
    assert 1 == len(keys)


def test_too_low_a_balance_waits_for_jobs_in_flight_and_else_stops(
    clock: VirtualClock, tmp_path: Path
) -> None:
    """A job that finishes releases what it held; without one, credit must come from outside."""
    broke = Reply(403, BROKE)
    jobs = [{**SPOKEN, "id": name} for name in "ab"]
    replies = [accepted(), broke, succeeded(), content(), broke]
    with ScriptedService(replies) as service:
        with client(service, clock) as tenuto, pytest.raises(InsufficientBalance):
            tenuto.batch(jobs, tmp_path)
        states = {name: line["state"] for name, line in report_of(tmp_path).items()}
        service._replies = [accepted(), succeeded(), content()]
        with client(service, clock) as tenuto:
            report = tenuto.batch(jobs, tmp_path)
    order = [asked.method for asked in service.asked]

    assert ["POST", "POST", "GET", "GET", "POST", "POST", "GET", "GET"] == order
    assert {"a": "succeeded", "b": NOT_SUBMITTED} == states and report.has_succeeded


@pytest.mark.parametrize(("first", "is_in_doubt"), [([], False), ([LOST], True)])
def test_a_line_that_a_revoked_key_could_not_submit_is_made_with_the_next(
    first: list[Reply], is_in_doubt: bool, clock: VirtualClock, tmp_path: Path
) -> None:
    """A 401 at its only try stored nothing; after a try that may have arrived, the line stays in doubt."""
    lines = [SPOKEN, {**SPOKEN, "id": "b"}]
    revoked = Reply(401, {"error": {"code": "invalid_api_key", "message": "The API key was revoked."}})
    with ScriptedService([accepted(), *first, revoked]) as service:
        with client(service, clock, "tn_old") as tenuto, pytest.raises(AuthenticationFailed):
            tenuto.batch(lines, tmp_path)
        before = len(service.asked)
        more = [] if is_in_doubt else [accepted()]
        service._replies[:] = [*more, *[succeeded(), content()] * 2]
        with client(service, clock, "tn_new") as tenuto:
            report = tenuto.batch(lines, tmp_path)
        submitted = [asked for asked in service.asked[before:] if asked.method == "POST"]

    assert [True, not is_in_doubt] == [each.has_succeeded for each in report.results]
    assert len(more) == len(submitted)
    assert is_in_doubt == ("sent with another API key" in report.results[1].error)


def test_a_folder_belongs_to_one_service_and_one_program(clock: VirtualClock, tmp_path: Path) -> None:
    def second(asked: Asked) -> Reply:
        with (
            client(service, VirtualClock()) as tenuto,
            pytest.raises(JournalError, match="another program works on the batch"),
        ):
            tenuto.batch([SPOKEN], tmp_path)
        return accepted()

    with ScriptedService([second, succeeded(), content()]) as service, client(service, clock) as tenuto:
        assert tenuto.batch([SPOKEN], tmp_path).has_succeeded
    with ScriptedService([accepted()]) as other, client(other, clock) as tenuto:
        with pytest.raises(JournalError, match="was sent to"):
            tenuto.batch([SPOKEN], tmp_path)

        assert [] == other.asked


def test_the_oldest_job_is_read_most_often(clock: VirtualClock, tmp_path: Path) -> None:
    """Four jobs in flight cost little more polling than one, and at most four are in flight (R221)."""
    reads: dict[str, int] = {}
    flying = 0
    most = 0

    def answer(asked: Asked) -> Reply:
        nonlocal flying, most
        if asked.method == "POST":
            flying += 1
            most = max(most, flying)
            job_id = f"{JOB[:-2]}{len(reads):02}"
            reads[job_id] = 0
            return Reply(202, {"id": job_id, "state": "queued", "artifacts": []}, {"Retry-After": "1"})
        if asked.path.startswith("/v1/artifacts"):
            return content()
        job_id = asked.path.rpartition("/")[2]
        reads[job_id] += 1
        if clock.monotonic() < 15 * (1 + list(reads).index(job_id)):
            return Reply(200, {"id": job_id, "state": "running", "artifacts": []}, {"Retry-After": "1"})
        flying -= 1
        done = succeeded()
        return Reply(200, {**done.body, "id": job_id})

    with ScriptedService([answer]) as service, client(service, clock) as tenuto:
        report = tenuto.batch([{**SPOKEN, "id": f"{n}"} for n in range(8)], tmp_path, in_flight=4)

    assert report.has_succeeded and 4 == most
    assert sum(reads.values()) <= clock.monotonic() * (1 + 3 / 5) * 1.1


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("x.csv", b"id,language\n1,en\n", "needs a first line"),
        ("x.csv", b"id,text,text\n1,a,b\n", "has a column twice"),
        ("x.csv", b"id,text\n1,\xff\n", "not UTF-8 text in line 2"),
        ("x.csv", b'id,text\n1,"a\n', "not CSV in line"),
        ("x.txt", b"id,text\n1,a\n", "neither a .csv nor a .jsonl"),
        ("x.jsonl", b"\n", "no lines"),
    ],
)
def test_a_file_that_is_no_batch_is_refused_whole(name: str, text: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text)

    with pytest.raises(InvalidSetting, match=error):
        read_lines(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "is not JSON"),
        ('{"id": "a", "text": 5}', "text must be text, not 5"),
        ('{"id": "a", "text": "x", "top_p": NaN}', "NaN is not a number"),
        ('{"id": "a/b", "text": "x"}', "cannot name a file"),
        ('{"id": "' + "音" * 51 + '", "text": "x"}', "cannot name a file"),
        ('{"id": "a", "file": "' + "x" * 300 + '.wav"}', "cannot be read: File name too long"),
        ('{"id": "a", "file": "~no-one/x.wav"}', "~no-one/x.wav: no such file"),
    ],
)
def test_a_bad_line_carries_its_error(line: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"id": "good", "text": "x"}}\n{line}\n', "utf-8")
    good, bad = read_lines(tmp_path / "x.jsonl")

    assert ("", "good", "speech") == (good.error, good.id, good.kind)
    assert error in bad.error


def test_cells_have_the_type_of_their_parameter(tmp_path: Path) -> None:
    """Numbers, lists and truth values, also as a spreadsheet writes them; text stays text."""
    (tmp_path / "x.csv").write_text(
        "\ufeffid,text,do_sample,top_k,emo_vector,emo_text,model,metadata\r\n"
        '1,"5, or\n6",FALSE,5,"[0,0,1]",7,m,"{""a"": ""b""}"\r\n',
        "utf-8",
        newline="",
    )
    [line] = read_lines(tmp_path / "x.csv", defaults={"top_k": 9, "lang": "ja"})

    text = {"lang": "ja", "text": "5, or\n6", "emo_text": "7"}
    assert text | {"do_sample": False, "top_k": 5, "emo_vector": [0, 0, 1]} == line.parameters
    assert ("1", "m", {"a": "b"}) == (line.id, line.model, line.metadata)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SETTLE_S", 0.0)


@ON_ONE_DATABASE
@pytest.mark.usefixtures("quick")
def test_what_is_in_a_folder_is_done_once(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    at = {"url": service.url, "key": caller.key}
    source = tmp_path / "in"
    source.mkdir()
    (source / "talk.wav").write_bytes(sound(1))
    (source / "note.txt").write_text("Hold the note.")
    (source / "latin.txt").write_bytes(b"\xff\xfe")
    (source / ".hidden.wav").write_bytes(sound(1))
    (source / "empty.wav").touch()
    (source / "picture.png").write_bytes(b"x")
    words = ("watch", "in", "-o", "out", "--to", "srt", "--to", "flac", "--once", "-q")
    first = run(*words, **at)
    (source / "latin.txt").unlink()
    jobs = count(caller)
    again = run(*words, **at)
    (source / "note.txt").rename(source / "renamed.txt")
    renamed = run(*words, **at)
    same = count(caller)
    (source / "renamed.txt").write_text("Hold it longer.")
    changed = run(*words, **at)
    beside = run("watch", "in", "-o", "in", **at)

    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert (1, 0, 0, 0, 2) == tuple(each[0] for each in (first, again, renamed, changed, beside))
    assert {"talk.wav.srt", "note.txt.flac", "renamed.txt.flac"} <= names
    assert ["out/note.txt.flac", "out/talk.wav.srt"] == sorted(first[1].split())
    assert (2, 2, 3) == (jobs, same, count(caller))


def test_a_file_is_taken_when_it_has_settled(tmp_path: Path) -> None:
    """Not while it grows, once for each content, and with --once nothing is forgotten."""
    now = 0.0
    box = Inbox(tmp_path, lambda: now, model="m", parameters={"language": "en"})
    path = tmp_path / "talk.wav"

    def scan(at: float) -> list[str]:
        nonlocal now
        now = at
        return [line.id for line in box.scan()]

    path.write_bytes(b"RIFF")
    started = scan(0.0)
    path.write_bytes(b"RIFF and more")
    grown = scan(SETTLE_S)
    waits = box.is_settled
    settled, again = scan(2 * SETTLE_S), scan(3 * SETTLE_S)
    os.utime(path, (1, 1))
    touched, later = scan(4 * SETTLE_S), scan(5 * SETTLE_S)

    assert ([], [], False, ["talk.wav"], []) == (started, grown, waits, settled, again)
    assert ([], ["talk.wav"], True) == (touched, later, box.is_settled)


def test_the_result_is_that_of_the_newest_content(clock: VirtualClock, tmp_path: Path) -> None:
    lines = [
        Line(number, "note.txt", "speech", {"text": text}, "m") for number, text in ((1, "Old."), (2, "New."))
    ]
    waiting = [lines[:1], lines[1:]]

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            job_id = "job_old" if b"Old." in asked.body else "job_new"
            return Reply(202, {"id": job_id, "state": "queued", "artifacts": []}, {"Retry-After": "1"})
        if asked.path.startswith("/v1/artifacts"):
            return content(SOUND if "old" in asked.path else SOUND[::-1])
        name = asked.path.rpartition("_")[2]
        if name == "old" and not (tmp_path / "note.txt.wav").exists():
            return Reply(200, {"id": "job_old", "state": "running", "artifacts": []}, {"Retry-After": "1"})
        done = succeeded(SOUND if name == "old" else SOUND[::-1]).body
        return Reply(200, {**done, "id": f"job_{name}", "artifacts": [{**done["artifacts"][0], "id": name}]})

    with ScriptedService([answer]) as service, client(service, clock) as tenuto:
        plan = Plan([], tmp_path, scan=lambda: waiting.pop(0) if waiting else [], is_over=lambda: not waiting)
        report = tenuto._session.run(batch.run(tenuto._session.link, plan))

    assert ["note.txt-2.wav", "note.txt.wav"] == [each.file for each in report.results]
    assert SOUND[::-1] == (tmp_path / "note.txt.wav").read_bytes()
    assert SOUND == (tmp_path / "note.txt-2.wav").read_bytes()
