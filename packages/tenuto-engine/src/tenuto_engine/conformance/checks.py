"""The checks. Each is a function of a trial; its name and docstring say what every engine must do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

from tenuto_engine.conformance.process import Nonconformance, Outcome
from tenuto_engine.conformance.results import (
    check_pieces,
    check_result,
    require,
    require_duration,
    samples_of,
)
from tenuto_engine.conformance.samples import Change
from tenuto_engine.conformance.subject import Subject
from tenuto_engine.conformance.trial import Trial
from tenuto_engine.wav import duration_ms

Check = Callable[[Trial], None]

FIRST_SIGN_S = 2.0
"""A long run that has reported nothing by then is cancelled all the same."""
FINISHED_SHARE = 0.2
"""A cancelled run may still give its result within this share of the grace: it was as good as finished."""
_CODE = re.compile(r"[a-z][a-z_]*\Z")
_PRIVATE = re.compile(r"Traceback|\b\w+(Error|Exception)\b|(/[\w.-]+){2,}")


def loads(trial: Trial) -> None:
    """It loads in time, and takes as many runs at once as its manifest says."""
    trial.process  # noqa: B018, starts it
    concurrency = trial.info.get("concurrency")
    declared = trial.subject.concurrency
    require(
        type(concurrency) is int and concurrency >= declared,
        f"its manifest says {declared} runs at once, the loaded engine {concurrency}",
    )


def gives_a_result(trial: Trial) -> None:
    """A plain run gives a result of its kind: media type, header, size and durations agree."""
    check_result(trial.subject.kind, trial.first(), trial.sample.parameters, trial.sample.inputs)


def reports_progress(trial: Trial) -> None:
    """A run reports progress, or its segments as they come; what is completed grows up to the total."""
    outcome = trial.first()
    require(bool(outcome.progress or outcome.segments), "a whole run reported neither progress nor a segment")
    before: dict[str, int] = {}
    for one in outcome.progress:
        stage, completed, total = one["stage"], one["completed"], one["total"]
        require(0 <= completed <= total and total > 0, f"{stage}: {completed} of {total} is not a progress")
        require(completed >= before.get(stage, 0), f"{stage}: {completed} after {before.get(stage)}")
        require(bool(stage) and bool(one["unit"]), "a progress has no stage or no unit")
        before[stage] = completed


def shows_segments(trial: Trial) -> None:
    """Segments are shown if asked for, and joined they are the result: no sample more, none less.

    A recognition may report its text in pieces: in order, inside the audio, and joined its transcript's text.
    """
    kind, is_streaming = trial.subject.kind, "stream" in trial.subject.honoured
    if kind == "recognition":
        if not trial.first().segments:
            raise SkipTest("it reports no text while it runs")
        check_pieces(trial.first(), trial.sample.inputs["audio"])
        return
    if kind not in ("speech", "chat"):
        require(not trial.first().segments, f"a run of {kind} has no segments")
        return
    if kind == "chat":
        _require_joined(trial.first(), b"".join(content for content, _ in trial.first().segments))
        return
    require(not trial.first().segments, "segments were shown, and stream is false")
    if not is_streaming:
        raise SkipTest("it does not honour stream")
    outcome = trial.result({"stream": True})
    whole, rate, channels = samples_of(outcome.content, "the result")
    pieces = [samples_of(content, "a segment") for content, _ in outcome.segments]
    require(bool(pieces), "stream is true, and no segment was shown")
    for (samples, *form), (_, metadata) in zip(pieces, outcome.segments):  # noqa: B905, Python 3.9
        require(form == [rate, channels], f"a segment has {form[0]} Hz, the result {rate} Hz")
        require_duration(metadata.get("duration_ms"), duration_ms(samples, *form), "a segment's duration_ms")
    require(b"".join(samples for samples, *_ in pieces) == whole, "the segments joined are not the result")


def runs_again(trial: Trial) -> None:
    """Another run after the first one gives a result too, in the same process."""
    trial.first()
    again = trial.result()
    check_result(trial.subject.kind, again, trial.sample.parameters, trial.sample.inputs)


def runs_at_once(trial: Trial) -> None:
    """As many runs at once as it says, each with its own result."""
    process = trial.process
    count = min(4, int(trial.info["concurrency"]))
    if count == 1:
        raise SkipTest("it takes one run at a time")
    runs = [process.start(trial.sample.parameters, trial.sample.inputs) for _ in range(count)]
    for outcome in [process.finish(run_id) for run_id in runs]:
        require(outcome.type == "result", f"one of {count} runs at once ended as {outcome.type}")
        check_result(trial.subject.kind, outcome, trial.sample.parameters, trial.sample.inputs)


def stops_when_cancelled(trial: Trial) -> None:
    """A run that is cancelled in the middle ends as cancelled in time, and the next run gives a result."""
    if trial.subject.metered:
        raise SkipTest("each call is charged: a cancellation changes nothing")
    process, sample, grace_s = trial.process, trial.sample, trial.subject.grace_s
    run_id = process.start(sample.long_parameters, sample.long_inputs)
    process.has_reported(run_id, FIRST_SIGN_S)
    asked_at = time.monotonic()
    process.cancel(run_id)
    try:
        outcome = process.finish(run_id, grace_s)
    except Nonconformance as error:
        trial.drop()
        raise Nonconformance(f"a cancelled run did not stop within {grace_s:.0f} s: {error}") from error
    late_s = time.monotonic() - asked_at
    is_finished = outcome.type == "result" and late_s <= FINISHED_SHARE * grace_s
    require(
        outcome.type == "cancelled" or is_finished,
        f"a cancelled run ended as {outcome.type} after {late_s:.1f} s",
    )
    trial.result()


def refuses_what_is_wrong(trial: Trial) -> None:
    """A run that cannot give a result fails, with a code, and the process takes the next run.

    A message for the caller names no path and no exception.
    """
    if not trial.sample.wrong:
        raise SkipTest(f"no wrong run of the kind {trial.subject.kind!r} is known")
    for wrong in trial.sample.wrong:
        trial.process  # noqa: B018, starts it
        outcome = _ended(trial, wrong.parameters, wrong.inputs, wrong.name)
        code, message = outcome.header.get("code", ""), outcome.header.get("message", "")
        require(outcome.type == "failed", f"{wrong.name}: the run ended as {outcome.type}")
        require(bool(_CODE.match(code)), f"{wrong.name}: {code!r} is not a code")
        require(wrong.code in ("", code), f"{wrong.name}: the code is {code!r}, not {wrong.code!r}")
        is_private = bool(outcome.header.get("public")) and bool(_PRIVATE.search(message))
        require(not is_private, f"{wrong.name}: callers would read: {message}")
    trial.result()


def honours_what_it_declares(trial: Trial) -> None:
    """Every parameter of `honoured` is one of the kind's, and a run with another value gives a result."""
    for name in trial.subject.honoured:
        require(
            name in trial.sample.changes, f"honoured: {name!r} is not a parameter of {trial.subject.kind}"
        )
        for change in trial.sample.changes[name]:
            _changed(trial, change)


def ignores_what_it_does_not_declare(trial: Trial) -> None:
    """Parameters that it does not honour change nothing in its result, as far as the same run is the same."""
    honoured = trial.subject.honoured
    others = {name: one for name, one in trial.sample.changes.items() if one and name not in honoured}
    if not others:
        raise SkipTest("it honours every parameter")
    if trial.result().content != trial.first().content:
        raise SkipTest("the same run gives another result each time")
    parameters: dict[str, Any] = {}
    inputs: dict[str, bytes] = {}
    for change, *_ in others.values():
        parameters.update(change.parameters)
        inputs.update(change.inputs)
    # What another parameter that it honours needs beside it is not a change of these.
    alone = {name: value for name, value in parameters.items() if name not in honoured}
    same = trial.result(alone, inputs).content == trial.first().content
    require(same, f"one of {', '.join(sorted(others))} is not in honoured and changes the result")


def keeps_stdout_clean(trial: Trial) -> None:
    """Nothing is written to stdout while it loads and runs; stderr is for its log."""
    trial.first()
    trial.result()
    written, _ = trial.process.output()
    require(not written, f"on stdout: {written[:200]!r}")


def stops_in_a_run(trial: Trial) -> None:
    """Its process exits when the service goes away, whatever it is doing, and leaves nothing running."""
    process = trial.process
    run_id = process.start(trial.sample.long_parameters, trial.sample.long_inputs)
    process.has_reported(run_id, FIRST_SIGN_S)
    try:
        process.disconnect()
        _require_nothing_left(trial, is_tidy=False)
    finally:
        trial.drop()


def stops_when_idle(trial: Trial) -> None:
    """Its process exits with status 0 once the service closes the connection, and nothing of it is left."""
    trial.result()
    try:
        status = trial.process.disconnect()
        require(status == 0, f"the process ended with exit status {status}")
        _require_nothing_left(trial, is_tidy=True)
    finally:
        trial.drop()


CHECKS: tuple[Check, ...] = (
    loads,
    gives_a_result,
    reports_progress,
    shows_segments,
    runs_again,
    runs_at_once,
    honours_what_it_declares,
    ignores_what_it_does_not_declare,
    refuses_what_is_wrong,
    stops_when_cancelled,
    keeps_stdout_clean,
    stops_in_a_run,
    stops_when_idle,
)
"""In this order a process is started twice only."""


@dataclass(frozen=True)
class Verdict:
    """What came of one check."""

    check: Check
    seconds: float
    fault: str = ""
    """What is wrong with the engine; "" if it passed."""
    skipped: str = ""
    """Why the check does not apply to it."""


def examine(subject: Subject) -> Iterator[Verdict]:
    """Make every check on one engine, in two processes of it."""
    with Trial(subject) as trial:
        for check in CHECKS:
            began, fault, skipped = time.monotonic(), "", ""
            try:
                check(trial)
            except SkipTest as reason:
                skipped = str(reason)
            except Nonconformance as error:
                fault = str(error)
            yield Verdict(check, time.monotonic() - began, fault, skipped)


def _changed(trial: Trial, change: Change) -> None:
    outcome = trial.result(change.parameters, change.inputs)
    parameters = {**trial.sample.parameters, **change.parameters}
    try:
        check_result(trial.subject.kind, outcome, parameters, {**trial.sample.inputs, **change.inputs})
    except Nonconformance as error:
        raise Nonconformance(f"with {change.parameters}: {error}") from error


def _ended(trial: Trial, parameters: Mapping[str, Any], inputs: Mapping[str, bytes], name: str) -> Outcome:
    try:
        return trial.process.run(parameters, inputs)
    except Nonconformance as error:
        trial.drop()
        raise Nonconformance(f"{name}: {error}") from error


def _require_joined(outcome: Outcome, joined: bytes) -> None:
    require(joined == outcome.content, "the segments joined are not the result")


def _require_nothing_left(trial: Trial, *, is_tidy: bool) -> None:
    processes = trial.process.processes()
    require(not processes, f"it left processes running: {processes}")
    # Libraries leave hidden files there: onnxruntime does.
    left = sorted(one.name for one in trial.process.temporary.iterdir() if not one.name.startswith("."))
    require(not is_tidy or not left, f"it left in the folder for temporary files: {left[:10]}")
