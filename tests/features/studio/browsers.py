"""The studio's edge in this process, on a database of its own and with a clock that tests move, and browsers.

Every request goes through the whole application as a server would hand it over; only sockets are missing,
and workers: what needs those runs against a service as a user starts it.
"""

import asyncio
import itertools
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx2
from msgspec.structs import replace

from servers.world import SPEECH, World
from tenuto import config
from tenuto.api.app import make_app
from tenuto.api.service import Service
from tenuto.db.database import Database, Row, Transaction
from tenuto.features.studio import passwords, sessions
from tenuto.features.studio import people_operations as people
from tenuto.features.studio.app import StudioPart
from tenuto.features.studio.invitations import give_opening
from tenuto.features.studio.pages import Pages
from tenuto.features.studio.studio import LoginThrottle
from tenuto.ids import Ids
from tenuto.job.queue import Claim
from tenuto.kind import operations as catalog
from tenuto.process.api import build_service

PASSWORD = "correct horse battery"
START_MS = 1_795_000_000_000
SECOND_MS = 1000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PROXY = "127.0.0.1"

_addresses = (f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in itertools.count(1))


class Studio:
    """One service; `now_ms` is its clock."""

    def __init__(
        self, database: Database, folder: Path, *, static: Path | None = None, **options: Any
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_ms = START_MS
        settings = {"trusted_proxies": PROXY, "engines": "fake", **options}
        self.settings = config.load({}, options={"folder": folder, **settings})
        self.database = database
        self.service: Service = build_service(self.settings, database, needs_worker=False)
        self.service.clock = self.clock
        self.service.ids = Ids(self.clock)
        self.service.submitting = replace(self.service.submitting, clock=self.clock, ids=self.service.ids)
        part = self.service.part(StudioPart)
        self.edge = part.studio
        self.edge.throttle = LoginThrottle(lambda: self.now_ms / 1000)
        self.world = World(database, folder, self.now_ms)
        self.world.ids = self.service.ids
        part.pages = Pages(static or folder / "not-built", self.edge.base)
        self.app = make_app(self.service)

    def clock(self) -> int:
        return self.now_ms

    def pass_time(self, milliseconds: int) -> None:
        """Time goes on; what processes write down now and then is written down."""
        self.service.note_use()
        self.now_ms += milliseconds

    def browser(self, **about: Any) -> "Browser":
        """A browser of nobody, at an address of its own."""
        return Browser(self, **about)

    def set_up_token(self) -> str:
        """What stands in the link that `serve` prints on its first start."""
        token = sessions.new_token()
        sha256 = sessions.token_sha256(token)
        self.database.write(lambda tx: people.offer_set_up(tx, sha256, now_ms=self.now_ms))
        return token

    def operator(self, name: str = "operator") -> "Browser":
        """A browser of whoever used the set-up link; by its operation, for hashes take long."""
        sha256 = sessions.token_sha256(self.set_up_token())

        def make(tx: Transaction) -> str:
            ids, now_ms = self.service.ids, self.now_ms
            account_id, is_new = people.set_up(
                tx, ids, token_sha256=sha256, name=name, password_hash=known_hash(), now_ms=now_ms
            )
            if is_new:
                give_opening(tx, ids, self.settings, account_id, now_ms=now_ms)
            return account_id

        return self.signed_in(self.database.write(make))

    def person(self, name: str) -> "Browser":
        """A browser of somebody who registered; by the operation."""

        def make(tx: Transaction) -> str:
            account_id = people.register(
                tx, self.service.ids, name=name, password_hash=known_hash(), now_ms=self.now_ms
            )
            give_opening(tx, self.service.ids, self.settings, account_id, now_ms=self.now_ms)
            return account_id

        return self.signed_in(self.database.write(make))

    def signed_in(self, account_id: str) -> "Browser":
        """A browser with a session of this account."""
        browser, token = self.browser(), sessions.new_token()
        self.begin(account_id, sessions.token_sha256(token))
        browser.cookies.set("tenuto_session", token, domain="studio.test")
        return browser

    def begin(self, account_id: str, sha256: str) -> None:
        """A session that no password was typed for."""
        self.database.write(
            lambda tx: sessions.begin(
                tx, sha256, account_id=account_id, times=self.edge.times, now_ms=self.now_ms
            )
        )

    def open_lane(self, jobs: int = 1) -> None:
        """A worker is there, and room for so many jobs."""
        self.world.register("worker_a")
        self.world.slots(jobs)

    def hear_of_worker(self) -> None:
        """The worker lives; it is away when nothing was heard of it for long."""
        self.database.write(lambda tx: catalog.see_worker(tx, "worker_a", now_ms=self.now_ms))

    def claim(self) -> Claim:
        """A worker takes the next job."""
        self.world.now_ms = self.now_ms
        claim = self.world.claim()
        assert claim is not None
        return claim

    def row(self, sql: str, **parameters: Any) -> Row:
        row = self.database.read(lambda tx: tx.one(sql, **parameters))
        assert row is not None
        return row

    def close(self) -> None:
        self.edge.hashing.close()
        self.service.readers.close()
        self.service.uploads.threads.shutdown()
        self.loop.close()


@lru_cache(maxsize=1)
def known_hash() -> str:
    """The one password's, hashed once."""
    return passwords.hash_password(PASSWORD)


class Browser:
    """A cookie jar at one address, whose pages are the studio's own; over HTTPS behind a proxy if asked."""

    def __init__(self, studio: Studio, *, https: bool = False, address: str | None = None) -> None:
        self.studio = studio
        self.origin = f"{'https' if https else 'http'}://studio.test"
        self.address = address or next(_addresses)
        self.proxied = {
            "X-Forwarded-For": self.address,
            "X-Forwarded-Proto": "https" if https else "http",
        }
        self.cookies = httpx2.Cookies()

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **content: Any
    ) -> httpx2.Response:
        """A request from a page of the studio; other headers win."""
        own = {**self.proxied, "Origin": self.origin} if method != "GET" else self.proxied
        return self.bare(method, path, headers={**own, **(headers or {})}, **content)

    def bare(self, method: str, path: str, *, headers: Any = None, **content: Any) -> httpx2.Response:
        """A request with the cookies and these headers alone."""
        return self.studio.loop.run_until_complete(self.send(method, path, headers=headers, **content))

    async def send(self, method: str, path: str, *, headers: Any = None, **content: Any) -> httpx2.Response:
        """The same for who makes several at once."""
        transport = httpx2.ASGITransport(app=self.studio.app, client=(PROXY, 1))
        async with httpx2.AsyncClient(
            transport=transport, base_url=self.origin, cookies=self.cookies
        ) as client:
            answer = await client.request(method, path, headers=headers, **content)
            self.cookies = client.cookies
            return answer

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, asked: Any = None, **headers: str) -> httpx2.Response:
        if asked is None:
            return self.request("POST", path, headers=headers)
        return self.request("POST", path, headers=headers, json=asked)

    def act(self, path: str, asked: Any, key: str | None = None) -> httpx2.Response:
        """An operator's act that moves money, named as the page names it."""
        return self.post(path, asked, **{"Idempotency-Key": key or str(uuid.uuid4())})

    def log_in(self, name: str, password: str = PASSWORD) -> httpx2.Response:
        return self.post("/web/login", {"name": name, "password": password})

    def submit(self, text: str = "Hold the note.", *, model: str = SPEECH, key: str | None = None) -> str:
        """A job of the studio's that is accepted; its id."""
        asked = {"model": model, "parameters": {"text": text}}
        answer = self.post("/web/v1/jobs", asked, **{"Idempotency-Key": key or str(uuid.uuid4())})
        assert 202 == answer.status_code, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    def session(self) -> Any:
        """What the pages know."""
        answer = self.get("/web/session")
        assert 200 == answer.status_code
        return answer.json()

    def name(self) -> str | None:
        """Who is signed in."""
        account = self.session()["account"]
        return None if account is None else account["name"]

    def account_id(self) -> str:
        found: str = self.session()["account"]["id"]
        return found


def error(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of a refusal, in the API's shape."""
    told = answer.json()["error"]
    assert told["message"]
    assert told["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, told["code"]


def faults(answer: httpx2.Response) -> list[tuple[str, str]]:
    """Which fields are wrong, and how."""
    assert (400, "invalid_request") == error(answer), answer.text
    return [(fault["param"], fault["code"]) for fault in answer.json()["error"]["details"]]
