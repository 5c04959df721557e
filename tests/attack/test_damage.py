"""Stored bytes that are not what they were: no route ever sends all of them with a 200 (P6)."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from servers import checker
from servers.document import routes
from servers.ports import free_port
from servers.recordings import body as recognition
from servers.recordings import recording as flac
from servers.service import RunningService
from servers.voices import headers_of
from servers.voices import recording as wav
from tenuto.db.database import Database

CONTENT = [route for route in routes() if route.method == "GET" and route.path.endswith("/content")]
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "its first bit flipped": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "its last bit flipped": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "two bytes exchanged": lambda content: content[:40] + content[41:42] + content[40:41] + content[42:],
    "a byte shorter": lambda content: content[:-1],
    "a byte longer": lambda content: content + b"\0",
    "empty": lambda content: b"",
    "another file of its length": lambda content: content[::-1],
    "a pattern from its middle on": lambda content: (
        content[: len(content) // 2] + b"\x55" * (len(content) - len(content) // 2)
    ),
    "missing": lambda content: None,
    "a folder": lambda content: b"folder",
}


@dataclass(frozen=True)
class Stored:
    """Something with bytes that can be read: where, and what they are."""

    path: str
    blob_id: str


@dataclass(frozen=True)
class Shelf:
    """A service and one of each thing that has bytes."""

    service: RunningService
    http: httpx2.Client
    records: Database
    stored: dict[str, Stored]

    def file(self, stored: Stored) -> Path:
        return self.service.folder / "blobs" / stored.blob_id[-2:] / stored.blob_id

    def damaged(self) -> int:
        """What the metric has counted."""
        text = httpx2.get(f"http://127.0.0.1:{self.service.variables['TENUTO_METRICS_PORT']}/metrics").text
        lines = [line for line in text.splitlines() if line.startswith("tenuto_artifacts_damaged_total")]
        return int(float(lines[0].split()[1]))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Only SQLite: where the records lie has no part in it."""
    variables = {"TENUTO_REQUESTS_PER_SECOND": "0", "TENUTO_METRICS_PORT": str(free_port())}
    service = RunningService(tmp_path_factory.mktemp("shelf") / "data", variables=variables)
    service.start()
    service.key = service.make_key(credit="100")
    records = checker.open_records(service)
    with service.client() as http:
        yield Shelf(service, http, records, _stored(service, http, records))
    records.close()
    service.stop()


def test_every_route_that_sends_bytes_is_tried(shelf: Shelf) -> None:
    """A route that is added to the document is added here."""
    assert {route.name for route in CONTENT} == {name.split(" ")[0] for name in shelf.stored}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bytes_are_never_a_whole_answer(shelf: Shelf, damage: str) -> None:
    """In full, resumed and to HEAD: 503 or a cut connection, never wrong bytes; the metric counts each time.

    What was damaged is readable again when its bytes are back: nothing was changed because of it (P6, P7).
    """
    for stored in shelf.stored.values():
        file = shelf.file(stored)
        whole = file.read_bytes()
        before = shelf.damaged()
        seen = []
        _damage(file, DAMAGES[damage](whole))
        try:
            for headers in ({}, {"Range": "bytes=0-"}, {"Range": f"bytes=0-{len(whole) - 1}"}):
                seen.append(_asked(shelf.http, stored.path, headers))
        finally:
            _damage(file, None)
            file.write_bytes(whole)
        counted = shelf.damaged() - before
        again = shelf.http.get(stored.path)

        assert [503] * len(seen) == seen
        assert len(seen) == counted
        assert (200, whole) == (again.status_code, again.content)


def test_a_job_on_a_damaged_input_fails_and_costs_nothing(shelf: Shelf) -> None:
    """What was uploaded is not what lies there any more: `input_unreadable`, the hold voided (P3, P6)."""
    artifact_id = _upload(shelf.http)
    stored = Stored("", _blob(shelf.records, "artifact", artifact_id))
    whole = shelf.file(stored).read_bytes()
    _damage(shelf.file(stored), DAMAGES["its last bit flipped"](whole))
    before = shelf.http.get("/v1/account/balance").json()["total"]
    answer = shelf.http.post(
        "/v1/jobs", json=recognition(artifact_id), headers={"Idempotency-Key": artifact_id}
    )
    operation = shelf.service.wait(answer.json()["id"])
    balance = shelf.http.get("/v1/account/balance").json()
    _damage(shelf.file(stored), None)
    shelf.file(stored).write_bytes(whole)

    assert ("failed", "input_unreadable") == (operation["state"], operation["error"]["code"])
    assert ("0.000000", before) == (balance["held"], balance["total"])


def _asked(http: httpx2.Client, path: str, headers: dict[str, str]) -> int:
    """The status; 503 too where the connection was cut before the end."""
    try:
        return http.get(path, headers=headers).status_code
    except httpx2.RemoteProtocolError:
        return 503


def _damage(file: Path, content: bytes | None) -> None:
    if file.is_dir():
        file.rmdir()
    file.unlink(missing_ok=True)
    if content == b"folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)


def _stored(service: RunningService, http: httpx2.Client, records: Database) -> dict[str, Stored]:
    body = {"model": "fake/speech", "parameters": {"text": "One. Two. End.", "stream": True}}
    job_id = http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "stored"}).json()["id"]
    result = service.wait(job_id)["artifacts"][0]["id"]
    segment = http.get(f"/v1/jobs/{job_id}/audio-segments").json()["data"][0]["segment_id"]
    content = wav()
    voice = http.post("/v1/voices", content=content, headers=headers_of(content)).json()["voice_id"]
    given = _upload(http)
    shared = http.get("/v1/voices").json()["data"][0]["voice_id"]
    artifact = "/v1/artifacts/{}/content".format
    return {
        "readArtifactContent of a result": Stored(artifact(result), _blob(records, "artifact", result)),
        "readArtifactContent of an input": Stored(artifact(given), _blob(records, "artifact", given)),
        "readAudioSegmentContent": Stored(
            f"/v1/jobs/{job_id}/audio-segments/{segment}/content", _blob(records, "segment", segment)
        ),
        "readVoiceContent of an own": Stored(f"/v1/voices/{voice}/content", _blob(records, "voice", voice)),
        "readVoiceContent of all": Stored(f"/v1/voices/{shared}/content", _blob(records, "voice", shared)),
    }


def _blob(records: Database, table: str, row_id: str) -> str:
    return str(checker.rows(records, f"select blob_id from {table} where id = :id", id=row_id)[0]["blob_id"])


def _upload(http: httpx2.Client) -> str:
    content = flac()
    checksum = hashlib.sha256(content).hexdigest()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": checksum}
    artifact_id: str = http.post("/v1/input-artifacts", content=content, headers=headers).json()["artifact"][
        "id"
    ]
    return artifact_id
