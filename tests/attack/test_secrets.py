"""Secrets and texts are where they belong and nowhere else (P16).

Canaries go through every operation and every failure of a service that logs all it can: keys, passwords, the
token of a session, the keys of an upstream and of the database, and a caller's text. Then everything that a
process leaves or shows is searched for them.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
import pytest

from servers import checker
from servers.document import Route, routes
from servers.ports import free_port
from servers.recordings import body as recognition
from servers.recordings import recording as flac
from servers.service import FINAL, RunningService
from servers.upstream import UpstreamServer
from servers.voices import headers_of
from servers.voices import recording as wav

MakeService = Callable[..., RunningService]
PASSWORD = "canary-password-of-a-person"
WRONG_PASSWORD = "canary-password-that-is-wrong"
UPSTREAM_KEY = "canary-key-of-the-upstream"
DATABASE_PASSWORD = "canarypasswordofthedatabase"
TEXT = "canary-text-of-a-caller"
UPSTREAM = """
[models."there/chat"]
upstream = "{url}"
upstream_key_variable = "UPSTREAM_KEY"
"""
ENDINGS = ("", "[fake:raise] ", "[fake:garbage] ", "[fake:exit] ", "[fake:sleep=0.3] ")


@dataclass
class Bait:
    """A service, and what may not be seen of what it was told."""

    service: RunningService
    http: httpx2.Client
    secrets: dict[str, str]
    seen: dict[str, str] = field(default_factory=dict)
    """What was found in the process list, by where it stood."""

    def look_at_processes(self) -> None:
        """Command lines of all processes of the service; variables of those that know no records."""
        assert self.service.process is not None
        for process in psutil.Process(self.service.process.pid).children(recursive=True):
            try:
                line, variables = " ".join(process.cmdline()), process.environ()
            except psutil.Error:
                continue
            self.seen[f"command line: {line}"] = line
            if "tenuto_engine" in line or "flac_child" in line:
                self.seen[f"variables of {line}"] = json.dumps(dict(variables))


@pytest.fixture
def bait(make_service: MakeService, fresh_url: str | None, tmp_path: Path) -> Iterator[Bait]:
    upstream = UpstreamServer()
    url = fresh_url and fresh_url.replace("postgres@", f"postgres:{DATABASE_PASSWORD}@")
    (tmp_path / "tmp").mkdir()
    service = make_service(
        None,
        url,
        config=UPSTREAM.format(url=upstream.url),
        TENUTO_LOG="debug",
        TENUTO_METRICS_PORT=str(free_port()),
        TENUTO_REGISTRATION="open",
        TMPDIR=str(tmp_path / "tmp"),
        UPSTREAM_KEY=UPSTREAM_KEY,
    )
    service.start()
    service.key = service.make_key(credit="100")
    secrets = {
        "key": service.key,
        "key that is wrong": "tn_" + "Canary" * 8 + "0",
        "password": PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "upstream's key": UPSTREAM_KEY,
        "database's password": DATABASE_PASSWORD,
    }
    with service.client() as http:
        yield Bait(service, http, secrets)
    upstream.close()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_no_secret_leaves_its_place(bait: Bait, tmp_path: Path) -> None:
    """No log, metric, row, file or process shows a key, a password or a token; no log, metric, command line
    or temporary file shows a text. The text itself is in the records, for the job needs it.
    """
    _work(bait)
    for route in routes():
        _ask(bait, route)
    _people(bait)
    metrics = httpx2.get(f"http://127.0.0.1:{bait.service.variables['TENUTO_METRICS_PORT']}/metrics").text
    log = bait.service.log_path.read_text()
    rows = dict(_rows(bait.service))
    bait.service.stop()
    files = {str(path): path.read_text("latin-1") for path in _files(bait.service.folder)}
    temporary = {str(path): path.read_text("latin-1") for path in _files(tmp_path / "tmp")}
    open_places = {"log": log, "metrics": metrics, **bait.seen, **temporary}

    assert [] == _found(bait.secrets, {**open_places, **rows, **files})
    assert [] == _found({"text": TEXT}, open_places)
    assert TEXT in "".join(rows.values())
    assert any("flac_child" in where for where in bait.seen)
    assert any("variables of" in where and "tenuto_engine" in where for where in bait.seen)
    assert "login" in log or "http" in log


def _work(bait: Bait) -> None:
    """Jobs of every end, an upload, a voice, chats: whatever has a text or a key behind it."""
    for ending in ENDINGS:
        for model in ("fake/speech", "fake/metered-speech"):
            body = {"model": model, "parameters": {"text": f"{ending}{TEXT}", "stream": True}}
            answer = bait.http.post("/v1/jobs", json=body, headers=_new())
            bait.look_at_processes()
            bait.service.wait(answer.json()["id"])
    image = {"model": "fake/image", "parameters": {"prompt": TEXT}, "metadata": {TEXT: TEXT}}
    bait.service.wait(bait.http.post("/v1/jobs", json=image, headers=_new()).json()["id"])
    sound = flac(words=200)
    checksum = hashlib.sha256(sound).hexdigest()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": checksum}

    uploaded = bait.http.post("/v1/input-artifacts", content=sound, headers=headers).json()
    heard = recognition(uploaded["artifact"]["id"], context=TEXT, hotwords=[TEXT])
    job_id = bait.http.post("/v1/jobs", json=heard, headers=_new()).json()["id"]
    # The decoder lives for as long as its interpreter takes to start, and a little longer.
    while bait.http.get(f"/v1/jobs/{job_id}", headers=_new()).json()["state"] not in FINAL:
        bait.look_at_processes()
    bait.http.post("/v1/voices", content=wav(), headers=headers_of(wav(), TEXT))
    for text in (TEXT, f"[up:status=500] {TEXT}", f"[up:garbage] {TEXT}", f"[up:cut] {TEXT}"):
        for model in ("fake/chat", "there/chat"):
            said = {"model": model, "messages": [{"role": "user", "content": text}], "user": TEXT}
            bait.http.post("/v1/chat/completions", json=said)


def _ask(bait: Bait, route: Route) -> None:
    """A route with the canaries in each place of a request, with the right key, a wrong one and none."""
    body = json.dumps({"model": TEXT, "parameters": {TEXT: TEXT}, "name": "\0" + TEXT}).encode()
    for path in (
        route.at(**dict.fromkeys(route.path_names, TEXT)) + f"?{TEXT}={TEXT}&after={TEXT}&model={TEXT}",
        route.at(**dict.fromkeys(route.path_names, bait.service.key)) + f"?after={bait.service.key}",
    ):
        for key in (bait.service.key, bait.secrets["key that is wrong"]):
            headers = {
                "Authorization": f"Bearer {key}",
                "Idempotency-Key": TEXT + "\u00e9",
                "Content-Type": route.body_type or TEXT,
                "X-Service-Voice-Name": TEXT,
                "X-Service-Content-SHA256": TEXT,
                "Cookie": f"session={TEXT}",
                "Host": "tenuto/" if key != bait.service.key else "tenuto",
            }
            sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
            bait.http.request(route.method, path, headers=list(sent.items()), content=body)


def _people(bait: Bait) -> None:
    """Somebody registers, signs in, mistypes, changes the password, makes a key and signs out."""
    origin = {"Origin": bait.service.url}
    with httpx2.Client(base_url=bait.service.url, headers=origin, timeout=120) as browser:
        name = f"canary-{uuid.uuid4().hex[:8]}"
        made = browser.post("/web/register", json={"name": name, "password": PASSWORD})
        assert made.status_code == 201, made.text
        bait.secrets |= {f"session {n}": value for n, value in enumerate(browser.cookies.values())}
        for password in (WRONG_PASSWORD, PASSWORD):
            browser.post("/web/login", json={"name": name, "password": password})
            bait.secrets |= {f"session of {password}": value for value in browser.cookies.values()}
        browser.post("/web/login", content=b'{"name": "x", "password": "%s' % PASSWORD.encode())
        browser.post("/web/login", json={"name": PASSWORD, "password": name, PASSWORD: 1})
        browser.post("/web/password", json={"old": WRONG_PASSWORD, "new": PASSWORD + "-new"})
        browser.post("/web/password", json={"old": PASSWORD, "new": PASSWORD + "-new"})
        key = browser.post("/web/keys", json={"name": "made in the studio"})
        assert key.status_code == 201, key.text
        bait.secrets["key of the studio"] = key.json()["key"]
        browser.post("/web/logout")


def _new() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid.uuid4())}


def _found(wanted: Mapping[str, str], places: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, where)
        for name, secret in wanted.items()
        for where, content in places.items()
        if secret in content
    ]


def _rows(service: RunningService) -> Iterator[tuple[str, str]]:
    """Every table, as text."""
    database = checker.open_records(service)
    listed = {
        "sqlite": "select name from sqlite_master where type = 'table'",
        "postgresql": "select relname as name from pg_stat_user_tables",
    }
    for table in checker.rows(database, listed[database.dialect]):
        rows = checker.rows(database, f"select * from {table['name']}")
        yield f"table {table['name']}", "\n".join(str(list(row.values())) for row in rows)
    database.close()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
