"""A client's link to the service: sends requests, counts answers, records violations."""

import time
from collections import Counter
from types import TracebackType
from typing import Any

import httpx2

from servers.service import PLAIN

LOST_PAUSE_S = 0.1
TIMEOUT_S = 5.0
AT_REST_TIMEOUT_S = 60.0
"""Once nothing goes wrong any more, an answer takes as long as a slow machine needs."""


class Link:
    """HTTP with one key, for one thread; open while it is used as a context."""

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_S, verify=PLAIN
        )

    def __enter__(self) -> "Link":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def rest(self) -> None:
        """Wait longer for each answer from now on: none is lost any more."""
        self._http.timeout = AT_REST_TIMEOUT_S

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """The answer; None when there was none, or not all of it."""
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.TransportError:
            self.counts["unanswered"] += 1
            time.sleep(LOST_PAUSE_S)
            return None
        self.counts[str(answer.status_code)] += 1
        return answer

    def expect(self, answer: httpx2.Response, status: int, asked: object) -> bool:
        """Whether the answer is this one; 503 with Retry-After may be, at any time, and no other 5xx."""
        if answer.status_code == status:
            return True
        if answer.status_code != 503:
            self.faults.append(f"{answer.status_code}, not {status}, for {asked}: {answer.text[:500]}")
        elif "retry-after" not in answer.headers:
            self.faults.append(f"503 without Retry-After: {answer.text[:300]}")
        return False
