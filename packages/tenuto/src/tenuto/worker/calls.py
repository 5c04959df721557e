"""Calls of engines on behalf of one attempt: its deadline, its cancellation, its heartbeat go with each.

Knows hosts and the attempt, no kind of job: what is asked of an engine, and what its answer must be, is in
the kinds' own folders (`tenuto.kinds`).
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tenuto import failpoints
from tenuto.hosts.host import HostResult
from tenuto.jobs.queue import Claim
from tenuto.worker.context import WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Watched

LEAST_RUN_S = 60.0
"""A claimed job has this time at least: upkeep, which fails what waits too long, looks once a minute."""
LEAST_PAID_RUN_S = 3600.0
"""A call that is paid for has more: ended early it would be paid all the same, and its outcome unknown."""
DOUBTFUL_RUN_S = 6 * 3600.0
"""While the wall clock is in doubt, ten minutes after a start or a jump: as long as any work takes."""

OnSegment = Callable[[bytes, dict[str, Any]], None]
OnProgress = Callable[[dict[str, Any]], None]


class ResultInvalid(Exception):
    """The engine gave something that is not a result of this kind."""


class EngineCalls(Struct, frozen=True):
    """What a kind's runner has of its attempt."""

    context: WorkerContext
    engines: Engines
    claim: Claim
    watched: Watched

    def run(
        self,
        parameters: dict[str, Any],
        inputs: dict[str, bytes],
        on_segment: OnSegment | None = None,
        *,
        model: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> HostResult:
        """One run of the job's model, or of another that takes part in it. Raises as `ChildHost.run` does."""
        claim, watched = self.claim, self.watched

        def forward(content: bytes, metadata: dict[str, Any]) -> None:
            # The engine waits while a full preview or disk makes us wait.
            watched.run_pauses()
            failpoints.hit("engine.mid_run")
            if on_segment is not None:
                on_segment(content, metadata)
            watched.run_begins()

        name = model or claim.model
        with self.engines.sharing(name, watched, is_alone=claim.is_suspect):
            host = self.engines.ready(name, watched.stop)
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
                    run_id=claim.attempt_id,
                )
            finally:
                watched.run_pauses()
        failpoints.hit("engine.after_call")
        return result

    def time_left_s(self) -> float:
        """Until the job's deadline, which is a moment of the wall clock; no jump of that ends a job."""
        least_s = LEAST_RUN_S if self.claim.rerunnable else LEAST_PAID_RUN_S
        if not self.watched.trusts_clock():
            least_s = DOUBTFUL_RUN_S
        return max(least_s, (self.claim.deadline_at - self.context.clock()) / 1000)
