"""kokoro-onnx behind FastAPI, `uvicorn serving_kokoro:api`: OpenAI's speech route, for WAV alone."""

import io
import os
import wave

import numpy as np
from fastapi import FastAPI, Response
from kokoro_onnx import Kokoro
from pydantic import BaseModel, Field

kokoro = Kokoro(os.environ["RACE_MODEL"], os.environ["RACE_VOICES"])
api = FastAPI()


class Speech(BaseModel):
    """The fields of OpenAI's that the race sends."""

    model: str
    input: str = Field(min_length=1, max_length=100_000)
    voice: str = "af_heart"
    response_format: str = Field(pattern="^wav$")


@api.post("/v1/audio/speech")
def speak(request: Speech) -> Response:
    """As the library's README calls it; FastAPI runs this in a thread."""
    samples, rate = kokoro.create(request.input, request.voice, lang="en-us")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return Response(file.getvalue(), media_type="audio/wav")
