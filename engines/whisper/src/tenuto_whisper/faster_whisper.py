"""Recognition with any model of the faster-whisper package, large-v3 or any other size, chunk by chunk.

Runs in the interpreter that has `faster-whisper`. Windows, prompts and retries are the package's own;
the language is the caller's if the model knows it. It knows neither jobs nor other chunks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenuto_engine import Result, Run
from tenuto_engine_kit.languages import understood, unknown_language
from tenuto_engine_kit.recognition import RATE, Heard, part_of

from .chinese import simplified

HINTS = {"zh": "以下是普通话的句子。", "ja": "これは日本語の文章です。"}
"""The prompt of every window: it makes the model write punctuation, and mostly simplified characters. The
package uses `initial_prompt` only for the first window."""
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The package's own: a window with repetitions or low confidence is retried with the next one."""


class FasterWhisper:
    """The loaded model; one chunk at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        from faster_whisper import WhisperModel

        self._model_id, self._revision = str(options["model"]), str(options["model_revision"])
        self._model = WhisperModel(
            str(Path(options["model_dir"]).expanduser()),
            device=options["device"] or "auto",
            compute_type=options["compute_type"],
            cpu_threads=int(options.get("threads") or 0),
            local_files_only=True,
        )
        self._beams, self._skips_silence = options["beam_size"], options["vad_filter"]
        self.info = {"model_id": self._model_id, "languages": len(self._model.supported_languages)}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        heard = Heard(len(samples) / RATE, run)
        said = run.parameters.get("language")
        language = understood(said, self._model.supported_languages)
        run.check_cancelled()
        found, about = self._model.transcribe(
            samples,
            language=language,
            beam_size=self._beams,
            # Otherwise a bad text would affect all following windows.
            condition_on_previous_text=False,
            temperature=TEMPERATURES[1:] if run.parameters.get("again") else TEMPERATURES,
            vad_filter=self._skips_silence,
            hotwords=HINTS.get(language or ""),
        )
        seconds = max(1, int(heard.length_s))
        for segment in found:
            run.check_cancelled()
            text = simplified(segment.text) if about.language == "zh" else segment.text
            heard.add(segment.start, segment.end, text)
            done = min(segment.end, heard.length_s)
            run.progress("recognising", int(done), seconds, "seconds")
        run.progress("recognising", seconds, seconds, "seconds")
        if language is None:
            heard.warnings += unknown_language(said, f"{about.language} was heard")
        return heard.told(self._model_id, self._revision, language or about.language)
