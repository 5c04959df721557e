"""Recognition: a recording becomes two transcripts in one JSON."""

from tenuto.artifacts.inputs import MAX_INPUT_BYTES, MAX_INPUT_SECONDS
from tenuto.catalog.kinds import Kind
from tenuto.config import Price
from tenuto.kinds.recognition import binding, run
from tenuto.kinds.recognition.parameters import FIELDS, check_job
from tenuto.kinds.recognition.result import MEDIA_TYPE, supplied

KIND = Kind(
    name="recognition",
    media_type=MEDIA_TYPE,
    fields=FIELDS,
    check=check_job,
    references=binding.references,
    bind=binding.bind,
    run=run.run,
    read_result=supplied,
    # 6 CNY pay 120 minutes, the longest recording.
    price=Price("audio_minute", price_micros=50_000, hold_micros=6_000_000),
    slots=lambda settings: settings.recognition_slots,
    limits={"input_bytes": MAX_INPUT_BYTES, "input_seconds": MAX_INPUT_SECONDS},
    has_duration=True,
    takes_inputs=True,
    # They use the engine in turn, chunk by chunk.
    jobs_at_once=8,
)
