"""The shortest plan of a seed that still breaks a promise: faults and steps are left out while it does."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulation.world import AnyGround, Outcome, Plan, run

MOST_RUNS = 400


def shrunk(outcome: Outcome, ground: AnyGround, told: Callable[[str], None] = lambda _: None) -> Outcome:
    """The outcome of the smallest plan that was met; its trace is what a reader should see."""
    smallest, runs = outcome, 0
    is_smaller = True
    while is_smaller and runs < MOST_RUNS:
        is_smaller = False
        for plan in _smaller(smallest):
            runs += 1
            tried = run(plan, ground)
            if tried.broken is not None:
                smallest, is_smaller = tried, True
                told(f"{len(plan.steps)} steps, {len(plan.faults)} faults, {tried.switches} switches")
                break
            if runs >= MOST_RUNS:
                break
    return smallest


def _smaller(outcome: Outcome) -> Iterator[Plan]:
    """Plans with less in them, the greatest leaps first."""
    plan = outcome.plan
    for faults in _without(plan.faults):
        yield replace(plan, faults=faults)
    for steps in _without(plan.steps):
        yield replace(plan, steps=steps)
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    ends_at = min(plan.random_steps, outcome.switches)
    for fewer in (0, ends_at // 2, ends_at - ends_at // 8):
        if fewer < ends_at and fewer < plan.random_steps:
            yield replace(plan, random_steps=fewer)


def _without(items: tuple) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Half of them, then all but one."""
    if len(items) > 3:
        yield items[: len(items) // 2]
        yield items[len(items) // 2 :]
    for number in range(len(items)):
        yield items[:number] + items[number + 1 :]
