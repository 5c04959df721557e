"""faster-whisper behind FastAPI, `uvicorn serving_faster_whisper:api`: OpenAI's transcription route."""

import os

from fastapi import FastAPI, Form, UploadFile
from faster_whisper import WhisperModel

model = WhisperModel(os.environ["RACE_MODEL"], device="cpu", compute_type="int8", local_files_only=True)
api = FastAPI()


@api.post("/v1/audio/transcriptions")
def transcribe(file: UploadFile, language: str = Form()) -> dict[str, str]:
    """As the library's README calls it; FastAPI runs this in a thread."""
    segments, _ = model.transcribe(file.file, language=language, beam_size=5, vad_filter=True)
    return {"text": "".join(segment.text for segment in segments).strip()}
