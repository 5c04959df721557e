"""Speech: a text, and perhaps voices, become a WAV."""

from tenuto.catalog.kinds import Kind
from tenuto.config import Price
from tenuto.kinds.speech import binding, run
from tenuto.kinds.speech.parameters import FIELDS, MAX_TEXT_BYTES, check_job
from tenuto.kinds.speech.result import MEDIA_TYPE, supplied

KIND = Kind(
    name="speech",
    media_type=MEDIA_TYPE,
    fields=FIELDS,
    check=check_job,
    references=binding.references,
    bind=binding.bind,
    run=run.run,
    read_result=supplied,
    price=Price(),
    slots=lambda settings: settings.speech_slots,
    limits={"text_bytes": MAX_TEXT_BYTES},
    has_duration=True,
    takes_voices=True,
)
