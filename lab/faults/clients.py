"""Clients that do not give up: they submit, upload, cancel, erase, poll and download, and send again what was
not answered.

What they saw is kept. What must never happen is noted as a fault at once: another job for a key, a state
that goes back, wrong bytes, another account's record, a status that no promise allows.
"""

import hashlib
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from lab.faults import works
from lab.faults.links import LOST_PAUSE_S, Link
from lab.faults.seen import Book, see
from lab.faults.works import Work

PAUSE_S = 0.03
MAX_OPEN = 7


class Client(threading.Thread):
    """One client with its own API key; only it reads its jobs, so what it sees is in order."""

    def __init__(self, url: str, account: str, key: str, book: Book, seed: str) -> None:
        super().__init__(name=f"client-{account}", daemon=True)
        self.account, self.works = account, list[Work]()
        self.link = Link(url, key)
        self.faults = self.link.faults
        self.inputs: list[tuple[str, int]] = []
        self.voices: list[str] = []
        self.uploads: dict[str, str] = {}
        """The record that each upload's key stands for."""
        self._book = book
        self._dice = random.Random(seed)
        self._closing = threading.Event()
        self._going = threading.Event()
        self._impatient = threading.Event()

    def finish(self) -> None:
        """Ask for nothing new; the thread ends when all that was asked for has been seen to its end."""
        self._closing.set()
        self.link.rest()

    def lose_patience(self) -> None:
        """Cancel what still waits: a job that lost many workers pauses for longer and longer."""
        self._impatient.set()

    def give_up(self) -> None:
        self._going.set()

    def unfinished(self) -> list[Work]:
        """What has no end yet; work whose payment is unknown waits for an operator, and that is one."""
        return [
            work
            for work in self.works
            if not work.is_done and work.operation.get("state") != "recovery_required"
        ]

    def run(self) -> None:
        with self.link:
            while not self._is_over():
                try:
                    self._step()
                except Exception as error:
                    self.faults.append(f"client broke: {error!r}")
                    return
                time.sleep(PAUSE_S)

    def _is_over(self) -> bool:
        """A client that saw what must not be stops there: what it would see next explains nothing."""
        is_finished = self._closing.is_set() and not self.unfinished()
        return self._going.is_set() or is_finished or bool(self.faults)

    # --- what it does ----------------------------------------------------------------------------------

    def _step(self) -> None:
        open_now = self.unfinished()
        acts: list[tuple[int, Callable[[], None]]] = [(3, self._balance), (2, self._foreign)]
        if open_now:
            acts.append((50, lambda: self._look_after(self._dice.choice(open_now))))
        if not self._closing.is_set():
            if len(open_now) < MAX_OPEN:
                acts.append((40, self._submit_new))
            acts += [(2, self._upload_input), (2, self._upload_voice)]
        if self.works:
            work = self._dice.choice(self.works)
            acts += [(6, lambda: self._submit(work)), (2, lambda: self._conflict(work))]
            acts += [(2, lambda: self._cancel(work)), (5, lambda: self._events(work))]
            acts += [(4, lambda: self._segments(work)), (1, lambda: self._erase(work))]
        [act] = self._dice.choices([act for _, act in acts], [weight for weight, _ in acts])
        (self._leading_to(self._book.wanted) or act)()

    def _leading_to(self, place: str) -> Callable[[], None] | None:
        """Every other time, an act that brings somebody to the place that a fault waits at."""
        if self._closing.is_set() or self._dice.random() < 0.5:
            return None
        room, finished = place.partition(".")[0], [work for work in self.works if work.sha256 is not None]
        acts: dict[str, Callable[[], None]] = {"upload": self._upload_input, "voice": self._upload_voice}
        if self.works:
            acts |= dict.fromkeys(("cancel", "ending"), lambda: self._cancel(self.works[-1]))
        if finished:
            acts |= dict.fromkeys(
                ("erase", "removal", "blob.before_delete"), lambda: self._erase(finished[-1])
            )
        sort = works.LEADING.get(room) or works.LEADING.get(place)
        if sort is not None and len(self.unfinished()) < MAX_OPEN:
            acts[room] = lambda: self._submit_new(sort)
        return acts.get(place) or acts.get(room)

    def _submit_new(self, sort: str = "") -> None:
        work = works.draw(self._dice, self.inputs, self.voices, sort)
        self.works.append(work)
        self._submit(work)

    def _look_after(self, work: Work) -> None:
        if work.job_id is None:
            self._submit(work)
        elif work.operation.get("state") == "succeeded":
            self._download(work)
        else:
            if self._impatient.is_set() and not work.cancelled:
                self._cancel(work)
            answer = self.link.ask("GET", f"/v1/jobs/{work.job_id}")
            if answer is not None and self.link.expect(answer, 200, work):
                self._see(work, answer.json())

    def _submit(self, work: Work) -> None:
        if work.refused:
            return
        work.sends += 1
        began = time.monotonic()
        answer = self.link.ask("POST", "/v1/jobs", json=work.body, headers={"Idempotency-Key": work.key})
        if answer is not None and answer.status_code == 403 and not work.answers:
            work.refused = True
        elif answer is not None and self.link.expect(answer, 202, work):
            work.answers += 1
            operation = answer.json()
            replayed = "idempotent-replayed" in answer.headers
            self.link.counts["replayed"] += replayed
            if work.job_id not in (None, operation["id"]):
                self.faults.append(f"P2: key {work.key} got {work.job_id}, then {operation['id']}")
            if work.answers > 1 and not replayed:
                self.faults.append(f"P2: key {work.key} was accepted anew")
            if work.job_id is None:
                work.accepted_at = began
                self._book.publish(self.account, f"/v1/jobs/{operation['id']}")
            work.job_id = operation["id"]
            self._see(work, operation)

    def _conflict(self, work: Work) -> None:
        """The same key with another body."""
        if work.job_id is None:
            return
        body = {"model": "fake/speech", "parameters": {"text": f"other {self._dice.random()}"}}
        answer = self.link.ask("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": work.key})
        if answer is not None:
            self.link.expect(answer, 409, work)

    def _cancel(self, work: Work) -> None:
        if work.job_id is None or (self._dice.random() < 0.5 and not self._impatient.is_set()):
            return
        work.cancelled = True
        answer = self.link.ask("POST", f"/v1/jobs/{work.job_id}/cancel")
        if answer is not None and self.link.expect(answer, 200, work):
            self._see(work, answer.json())

    def _download(self, work: Work) -> None:
        artifact = work.operation["artifacts"][0]
        path = f"/v1/artifacts/{artifact['id']}/content"
        answer = self.link.ask("GET", path)
        if answer is None or (answer.status_code == 410 and work.erased):
            return
        if not self.link.expect(answer, 200, work):
            return
        sha256 = hashlib.sha256(answer.content).hexdigest()
        if (len(answer.content), sha256) != (artifact["size_bytes"], artifact["sha256"]):
            self.faults.append(f"P6: wrong bytes of {artifact['id']}: {len(answer.content)}, {sha256}")
            return
        alike = works.alike(work, answer.content)
        if not self._book.agree(work.group, alike):
            self.faults.append(f"P6: {work} gives other bytes than its like")
        work.sha256 = alike
        self._book.publish(self.account, path)

    def _segments(self, work: Work) -> None:
        if work.job_id is None or not work.body["parameters"].get("stream"):
            return
        answer = self.link.ask("GET", f"/v1/jobs/{work.job_id}/audio-segments")
        if answer is None or not self.link.expect(answer, 200, work):
            return
        segments = answer.json()["data"]
        if [segment["sequence"] for segment in segments] != list(range(len(segments))):
            self.faults.append(f"P11: a gap in {segments}")
        if len({segment["attempt_id"] for segment in segments}) > 1:
            self.faults.append(f"P11: attempts are mixed in {segments}")
        if segments and not work.erased:
            self._hear(work, self._dice.choice(segments))

    def _hear(self, work: Work, segment: dict[str, Any]) -> None:
        path = f"/v1/jobs/{work.job_id}/audio-segments/{segment['segment_id']}/content"
        answer = self.link.ask("GET", path)
        if answer is not None and self.link.expect(answer, 200, work):
            if hashlib.sha256(answer.content).hexdigest() != segment["sha256"]:
                self.faults.append(f"P6: wrong bytes of {segment['segment_id']}")
            group = f"segment {segment['sequence']} of {work.group}"
            if not self._book.agree(group, segment["sha256"]):
                self.faults.append(f"P11: {group} changed")

    def _events(self, work: Work) -> None:
        if work.job_id is None:
            return
        answer = self.link.ask("GET", f"/v1/jobs/{work.job_id}/events")
        if answer is None or not self.link.expect(answer, 200, work):
            return
        events = answer.json()["data"]
        if [event["sequence"] for event in events] != list(range(len(events))):
            self.faults.append(f"P8: a gap in {events}")
        if events[: len(work.events)] != work.events:
            self.faults.append(f"P8: events changed from {work.events} to {events}")
        work.events = events

    def _erase(self, work: Work) -> None:
        """Only what was downloaded; its record must stay as it is."""
        if work.sha256 is None or self._dice.random() < 0.5:
            return
        work.erased = True
        answer = self.link.ask("DELETE", f"/v1/artifacts/{work.operation['artifacts'][0]['id']}")
        if answer is not None and answer.status_code != 410:
            self.link.expect(answer, 200, work)

    def _balance(self) -> None:
        answer = self.link.ask("GET", "/v1/account/balance")
        if answer is not None and self.link.expect(answer, 200, None):
            shown = answer.json()
            if shown["available"].startswith("-") or shown["held"].startswith("-"):
                self.faults.append(f"P4: {shown}")

    def _foreign(self) -> None:
        path = self._book.foreign(self.account, self._dice)
        if path is not None:
            answer = self.link.ask("GET", path)
            if answer is not None:
                self.link.expect(answer, 404, None)

    def _upload_input(self) -> None:
        number = self._dice.randrange(len(self._book.media.flacs) * 3)
        flacs = self._book.media.flacs
        # The long one, of two parts, comes less often: it takes half a second of a core.
        number = number % (len(flacs) - 1) if number != len(flacs) * 3 - 1 else len(flacs) - 1
        record = self._upload("/v1/input-artifacts", flacs[number], {"Content-Type": "audio/flac"})
        if record is not None:
            self.inputs.append((record["artifact"]["id"], number))

    def _upload_voice(self) -> None:
        content = self._dice.choice(self._book.media.wavs)
        headers = {"Content-Type": "audio/wav", "X-Service-Voice-Name": "mine"}
        record = self._upload("/v1/voices", content, headers)
        if record is None:
            return
        self.voices.append(record["voice_id"])
        path = f"/v1/voices/{record['voice_id']}/content"
        self._book.publish(self.account, path)
        answer = self.link.ask("GET", path)
        if answer is not None and self.link.expect(answer, 200, None) and answer.content != content:
            self.faults.append(f"P6: wrong bytes of {record['voice_id']}")

    def _upload(self, path: str, content: bytes, headers: dict[str, str]) -> Any:
        """Sent until it is answered, each time under the same key; sometimes with another body's sum."""
        if self._dice.random() < 0.1:
            wrong = {"X-Service-Content-SHA256": hashlib.sha256(b"other").hexdigest()}
            answer = self.link.ask("POST", path, content=content, headers=headers | wrong)
            if answer is not None:
                self.link.expect(answer, 400, None)
            return None
        key = str(uuid.UUID(int=self._dice.getrandbits(128)))
        told = {"X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(), "Idempotency-Key": key}
        while not self._going.is_set():
            answer = self.link.ask("POST", path, content=content, headers=headers | told)
            if answer is not None and answer.status_code == 201:
                record = answer.json()
                self.uploads[key] = record["artifact"]["id"] if "artifact" in record else record["voice_id"]
                return record
            if answer is not None and not self.link.expect(answer, 201, None) and answer.status_code != 503:
                return None
            time.sleep(LOST_PAUSE_S)
        return None

    # --- what it sees ----------------------------------------------------------------------------------

    def _see(self, work: Work, operation: dict[str, Any]) -> None:
        self.faults += see(work, operation, hosts_killed=self._book.hosts_killed(work.accepted_at))
