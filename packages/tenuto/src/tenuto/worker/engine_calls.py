"""Engine calls on behalf of one attempt: each carries its deadline, its cancellation and its heartbeat.

Knows hosts and the attempt but no kind of job: what an engine is asked for, and what its answer must be, is
in the kinds' own folders (`tenuto.features`).
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from tenuto import failpoints
from tenuto.host.host import HostResult, OutcomeUnknown
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey
from tenuto.job.states import LEAST_DEADLINE_MS
from tenuto.worker.context import WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Watched

LEAST_RUN_S = 60.0
"""A claimed job gets at least this long: upkeep, which fails jobs that wait too long, looks once a minute."""
LEAST_PAID_RUN_S = 3600.0
"""A paid call gets longer: ended early, it would still have to be paid, and its outcome would be unknown."""
DOUBTFUL_RUN_S = 6 * 3600.0
"""While the wall clock is in doubt, for ten minutes after a start or a jump, or if it had not been set when
the job was accepted: long enough for any work."""

OnSegment = Callable[[bytes, dict[str, Any]], None]
OnProgress = Callable[[dict[str, Any]], None]


class ResultInvalid(Exception):
    """The engine returned something that is not a result of this kind."""


class EngineCalls(Struct, frozen=True):
    """An attempt as its kind's runner sees it."""

    context: WorkerContext
    engines: Engines
    claim: Claim
    watched: Watched
    pass_fence: Callable[[], None]
    """Called once a run has its turn and its engine: a job that still waits has not passed its fence."""
    keep_chunk: Callable[[ChunkKey, dict[str, Any]], None] = lambda *_: None
    """Keeps a finished chunk that the database does not take in time."""
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Of its runs. An engine may pass a run's id to an upstream, which answers the same id the same way."""

    def run(
        self,
        parameters: dict[str, Any],
        inputs: dict[str, bytes],
        on_segment: OnSegment | None = None,
        *,
        model: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> HostResult:
        """Run the job's model, or another one that it needs. Raises what `ChildHost.run` raises."""
        claim, watched = self.claim, self.watched

        def forward(content: bytes, metadata: dict[str, Any]) -> None:
            watched.run_pauses()
            failpoints.hit("engine.mid_run")
            if on_segment is not None:
                on_segment(content, metadata)
            watched.run_begins()

        name, number = model or claim.model, next(self.numbers)
        with self.engines.sharing(name, watched, is_alone=claim.is_suspect):
            host = self.engines.ready(name, watched.stop)
            if watched.makes_no_more and not watched.cancellable:
                raise OutcomeUnknown("the worker had to stop: calls were made, but this one was not")
            self.pass_fence()
            failpoints.hit("engine.before_call")
            try:
                result = host.run(
                    parameters,
                    inputs,
                    on_start=watched.run_begins,
                    on_segment=forward,
                    on_progress=on_progress or watched.hear,
                    deadline_s=self.time_left_s(),
                    cancelled=watched.stop,
                    grace_s=self.context.settings.host_grace_s,
                    run_id=f"{claim.attempt_id}-{number}" if number else claim.attempt_id,
                )
            finally:
                watched.run_pauses()
        failpoints.hit("engine.after_call")
        return result

    def time_left_s(self) -> float:
        """Seconds until the job's deadline on the wall clock; a jump of that clock never ends a job."""
        least_s = LEAST_RUN_S if self.claim.rerunnable else LEAST_PAID_RUN_S
        if not self.watched.trusts_clock() or self.claim.deadline_at < LEAST_DEADLINE_MS:
            least_s = DOUBTFUL_RUN_S
        return max(least_s, (self.claim.deadline_at - self.context.clock()) / 1000)
