"""The streaming preview over HTTP: which segments there are, and their sound."""

import msgspec

from tenuto.accounts.rules import Caller
from tenuto.api import artifacts
from tenuto.api.call import Answer, Call
from tenuto.api.query import read_query, text
from tenuto.artifacts.operations import Opened
from tenuto.db.database import Transaction
from tenuto.jobs import segments
from tenuto.jobs.rows import Segment

_QUERY = {"attempt_id": text("an attempt_id of this job")}
_encode = msgspec.json.Encoder().encode


async def index(call: Call) -> Answer:
    """GET /v1/jobs/{id}/audio-segments: all that one attempt saved, the newest unless one is named."""

    def look(tx: Transaction, who: Caller) -> list[Segment]:
        return segments.list_segments(
            tx,
            account_id=who.account_id,
            job_id=call.path_id("job_id", "job"),
            attempt_id=read_query(call, _QUERY).get("attempt_id"),
        )

    return Answer(200, _encode({"object": "list", "data": await call.read(look)}))


async def content(call: Call) -> Answer | None:
    """GET /v1/jobs/{id}/audio-segments/{segment_id}/content: a WAV; answered as an artifact is."""

    def look(tx: Transaction, who: Caller) -> Opened:
        return segments.open_segment(
            tx,
            account_id=who.account_id,
            job_id=call.path_id("job_id", "job"),
            segment_id=call.path_id("segment_id", "segment"),
        )

    return await artifacts.send_content(call, await call.read(look))
