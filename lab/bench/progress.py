"""How true the progress of a recognition is: beside the share of the processor time that the job takes.

A recording of 25 minutes by one engine, then by both. Processor time, because other work on the machine
cannot change its shares; all processes of the service, from `running` to the final state.
"""

import io
import itertools
import time

import numpy as np
import soundfile
from lab.bench.real import RECOGNITION, Client
from lab.bench.references import cpu_s
from lab.bench.report import Row, below
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer

MODELS = {"one engine": "Systran/faster-whisper-base", "both engines": RECOGNITION}
MINUTES = 25.0
RATE = 16_000
PAUSE_S = 1.0
LOOK_S = 0.25
POINTS = 5.0


def measure(postgres: PostgresServer | None, minutes: float = MINUTES) -> list[Row]:
    """On SQLite alone: what is measured is the engines' way."""
    if postgres is not None:
        return []
    with stage(None, TENUTO_ENGINES="real", TENUTO_CONFIG="") as running:
        client = Client(running)
        try:
            short, whole = (client.upload(_people(seconds)) for seconds in (5.0, minutes * 60))
            # The engines are loaded before anything counts.
            client.final(client.submit(RECOGNITION, {"language": "en"}, input_artifact_ids=[short]))
            return [_row(running, client, name, whole, minutes) for name in MODELS]
        finally:
            client.close()


def _row(running: Stage, client: Client, name: str, artifact_id: str, minutes: float) -> Row:
    job_id = client.submit(MODELS[name], {"language": "en"}, input_artifact_ids=[artifact_id])
    seen = []
    while (job := client.read(f"/v1/jobs/{job_id}"))["state"] in ("queued", "running"):
        if job["state"] == "running":
            progress = job["progress"] or {"completed": 0, "total": 1}
            seen.append((_used_s(running), progress["completed"] / progress["total"]))
        time.sleep(LOOK_S)
    assert job["state"] == "succeeded", job
    (began_s, _), end_s = seen[0], _used_s(running)
    off = [share - (used_s - began_s) / (end_s - began_s) for used_s, share in seen]
    steps = [after[1] - before[1] for before, after in itertools.pairwise(seen)]
    return below(
        f"progress of a recognition of {minutes:.0f} minutes by {name}, off by at most",
        max(abs(one) for one in off) * 100,
        POINTS,
        "points",
        f"fixed; percent of the processor time that the whole job took, {end_s - began_s:.0f} s; ahead by "
        f"{max(off) * 100:.1f}, behind by {-min(off) * 100:.1f}; largest step {max(steps) * 100:.1f}",
        digits=1,
    )


def _used_s(running: Stage) -> float:
    return sum(cpu_s(process.pid) for process in running.processes())


def _people(seconds: float) -> bytes:
    """People reading English, again and again, as FLAC."""
    from lab.quality.human import clips

    parts = [part for _, clip in clips() for part in (clip, np.zeros(int(PAUSE_S * RATE), np.float32))]
    samples = np.resize(np.concatenate(parts), int(seconds * RATE))
    file = io.BytesIO()
    soundfile.write(file, (samples * 32767).astype(np.int16), RATE, format="FLAC")
    return file.getvalue()
