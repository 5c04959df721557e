"""`tenuto recover`: jobs whose paid call has an unknown outcome, and the three ways out."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from tenuto import bootstrap
from tenuto.cli.common import HERE, Place, change, moment, new_ids, records, say, table
from tenuto.errors import OperatorError

app = App(name="recover", help="Jobs that wait for an operator.")


@app.command(name="list")
def list_jobs(*, place: Place = HERE) -> None:
    """List the jobs that wait, oldest first."""
    from tenuto.jobs import recover

    with records(place) as database:
        rows = database.read(recover.waiting)
    table(
        ("job", "model", "created", "attempts", "reason"),
        ((r["id"], r["model"], moment(r["created_at"]), r["attempts"], r["error_message"]) for r in rows),
    )


@app.command
def show(job_id: str, *, place: Place = HERE) -> None:
    """Show all the evidence of a job, as JSON."""
    from tenuto.jobs import recover

    with records(place) as database:
        evidence = database.read(lambda tx: recover.show(tx, job_id))
    say(json.dumps(evidence, ensure_ascii=False, indent=2))


@app.command
def complete(
    job_id: str,
    *,
    file: Annotated[Path | None, Parameter(help="The result, when none was recorded.")] = None,
    place: Place = HERE,
) -> None:
    """The call did succeed: finish the job with its recorded result, or with a file; it is charged."""
    from tenuto.jobs import recover

    settings, ids, now_ms = place.settings(), new_ids(), bootstrap.clock()
    result = None if file is None else _read_result(file, place, ids.new("blob"))
    change(place, lambda tx: recover.complete(tx, ids, job_id, result, now_ms=now_ms))
    say(f"{job_id} succeeded, in {settings.folder}")


@app.command
def requeue(job_id: str, *, place: Place = HERE) -> None:
    """Run the job again, although its first call may have been paid for."""
    from tenuto.jobs import recover

    now_ms = bootstrap.clock()
    change(place, lambda tx: recover.requeue(tx, job_id, now_ms=now_ms))
    say(f"{job_id} is queued again")


@app.command
def void(
    job_id: str,
    *,
    cancelled: Annotated[bool, Parameter(negative="", help="End it as cancelled, not failed.")] = False,
    place: Place = HERE,
) -> None:
    """Give the job up: its hold is released, nothing is charged."""
    from tenuto.jobs import recover

    ids, now_ms = new_ids(), bootstrap.clock()
    change(place, lambda tx: recover.void(tx, ids, job_id, cancel=cancelled, now_ms=now_ms))
    say(f"{job_id} is {'cancelled' if cancelled else 'failed'}, its hold released")


def _read_result(file: Path, place: Place, blob_id: str):  # type: ignore[no-untyped-def]
    from tenuto.jobs.lifecycle import RecordedResult
    from tenuto.media.wav import WavInvalid, read_pcm16_wav

    try:
        content = file.read_bytes()
        wav = read_pcm16_wav(content)
    except (OSError, WavInvalid) as error:
        raise OperatorError(f"{file} is not a result that can be used: {error}") from error
    blob = bootstrap.open_blobs(place.settings()).write(blob_id, content)
    metadata = {"duration_ms": wav.duration_ms, "brought_by": "operator"}
    return RecordedResult(blob, "audio/wav", metadata, wav.duration_ms)
