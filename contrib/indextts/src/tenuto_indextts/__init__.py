"""Speech by IndexTTS-2.5 on a GPU: text and a recording of a voice to a WAV file of 22,050 Hz.

Runs in the interpreter that has the model's package: upstream's `indextts`, or `indextts25-inference`.
The parameters arrive checked and complete. It knows neither jobs nor accounts nor voice ids.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenuto_engine import EngineError, InputError, Result, Run

from . import libraries, references, sound
from .reading import readable


def upstream(options: dict[str, Any]) -> IndexTTS:
    """The engine with the authors' package."""
    return IndexTTS(options, libraries.Upstream)


def packaged(options: dict[str, Any]) -> IndexTTS:
    """The engine with the package from PyPI."""
    return IndexTTS(options, libraries.Packaged)


class IndexTTS:
    """The loaded model. One run at a time: the package keeps the last voice that it used."""

    def __init__(
        self, options: dict[str, Any], library: Callable[[dict[str, Any]], libraries.Library]
    ) -> None:
        self._model_id = str(options["model"])
        self._revision = str(options["model_revision"])
        self._references = references.References(Path(options["reference"]).expanduser())
        self._library = library(options)
        self.info = {
            "model_id": self._model_id,
            "sample_rate": sound.SAMPLE_RATE,
            "package": self._library.package,
        }

    def run(self, run: Run) -> Result:
        """Synthesise the text segment by segment; the result is the segments joined."""
        try:
            return self._spoken(run)
        finally:
            self._references.forget()

    def _spoken(self, run: Run) -> Result:
        parameters = run.parameters
        text = readable(parameters["text"], parameters["lang"])
        if not any(sign.isalnum() for sign in text):
            raise InputError("nothing_to_speak", "The text has nothing that can be spoken.")
        asked, warnings = self._asked(run, text)
        pause = sound.silence(parameters["interval_silence"])
        spoken: list[bytes] = []
        hear = libraries.Hearing(run)
        for samples in self._library.speak(asked, hear):
            content = (pause if spoken else b"") + sound.pcm(samples)
            spoken.append(content)
            if parameters["stream"]:
                run.segment(sound.wav(content), {"duration_ms": sound.duration_ms(content)})
            run.check_cancelled()
        if not spoken:
            raise EngineError("engine_failed", "The model made no sound of the text.")
        return self._result(b"".join(spoken), len(spoken), warnings + hear.warnings)

    def _asked(self, run: Run, text: str) -> tuple[dict[str, Any], list[str]]:
        """The arguments of one call of the package, and warnings about parameters that it cannot follow."""
        parameters = run.parameters
        voice, warnings = self._references.path_of(run.inputs.get("voice"))
        asked = {
            "spk_audio_prompt": str(voice),
            "text": text,
            "lang": parameters["lang"],
            "duration_factor": float(parameters["duration_factor"]),
            "max_text_tokens_per_segment": parameters["max_text_tokens_per_segment"],
            "text_normalization": parameters["text_normalization"],
            **_sampling(parameters),
        }
        emotion, more = self._emotion(run)
        return asked | emotion, warnings + more

    def _emotion(self, run: Run) -> tuple[dict[str, Any], list[str]]:
        """The emotion: from another recording, a vector, or a text; at most one of them."""
        parameters = run.parameters
        strength = float(parameters["emo_alpha"])
        if "emotion_voice" in run.inputs:
            like, warnings = self._references.path_of(run.inputs["emotion_voice"])
            return {"emo_audio_prompt": str(like), "emo_alpha": strength}, warnings
        chosen = {"emo_alpha": strength, "use_random": parameters["use_random"]}
        if parameters.get("emo_vector") is not None:
            vector = self._library.balanced([float(share) for share in parameters["emo_vector"]])
            return {**chosen, "emo_vector": vector}, []
        if parameters["use_emo_text"]:
            if not self._library.reads_emotion:
                return {}, ["The model does not read emotions from text: it speaks as the voice does."]
            return {**chosen, "use_emo_text": True, "emo_text": parameters.get("emo_text")}, []
        return {}, []

    def _result(self, content: bytes, count: int, warnings: list[str]) -> Result:
        duration_ms = sound.duration_ms(content)
        metadata = {
            "sample_rate": sound.SAMPLE_RATE,
            "channels": 1,
            "duration_ms": duration_ms,
            "segments": count,
            "model_id": self._model_id,
            "model_revision": self._revision,
            "warnings": warnings,
        }
        return Result("audio/wav", sound.wav(content), metadata, duration_ms)


def _sampling(parameters: dict[str, Any]) -> dict[str, Any]:
    """The sampling parameters. Releases that always sample get one candidate and one beam."""
    drawn = {
        "do_sample": parameters["do_sample"],
        "top_p": float(parameters["top_p"]),
        "top_k": parameters["top_k"],
        "temperature": float(parameters["temperature"]),
        "repetition_penalty": float(parameters["repetition_penalty"]),
    }
    return drawn if drawn["do_sample"] else drawn | {"top_k": 1, "num_beams": 1}
