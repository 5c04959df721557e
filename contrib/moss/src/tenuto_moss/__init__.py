"""Recognition by MOSS-Transcribe-Diarize: words with speakers and times from one model, chunk by chunk.

Runs in the interpreter that has the model's package, `moss-transcribe-diarize`. The model detects the
language, but the prompt must be Chinese for Chinese speech and English for any other, so a short stretch is
transcribed first. It knows neither jobs nor other chunks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tenuto_engine import EngineError, Result, Run
from tenuto_engine_kit.recognition import RATE, Floats, Heard, label_of, letters, loudest, part_of

CHINESE = (
    "请将音频转写为文本，每一段需以起始时间戳和说话人编号（[S01]、[S02]、[S03]…）开头，正文为对应的语音内容，"
    "并在段末标注结束时间戳，以清晰标明该段语音范围。"
)
"""The package's own prompt."""
ENGLISH = (
    "Transcribe the audio into text. Each sentence should begin with a start timestamp and a speaker label "
    "([S01], [S02], [S03], …), followed by the corresponding spoken content, and end with an end timestamp "
    "to clearly indicate the time span of that sentence."
)
"""From the authors' repository."""
PROBE_S = 20.0
TOKENS_PER_SECOND = 20
"""More than the fastest speech needs, including times; the model's own limit would stop within a chunk."""
LEAST_TOKENS, MOST_TOKENS = 512, 16_384
"""The model itself stops at the latter."""
USUAL_TOKENS_PER_SECOND = 8
LOST_SHARE = 0.1
"""If a larger share of the text is outside all segments, it is recorded as a doubt."""

_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_MARK = re.compile(r"\[[0-9.]+\]|\[S[0-9]+\]")
_SAMPLED = {"do_sample": True, "temperature": 0.8, "top_p": 0.95, "top_k": 50}
"""The settings for a retry: the authors' advice for chunks that end too early."""


class MossTranscribeDiarize:
    """The loaded model; one chunk at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch
        from moss_transcribe_diarize import inference_utils, parse_transcript
        from transformers import AutoModelForCausalLM, AutoProcessor

        self._model_id, self._revision = str(options["model"]), str(options["model_revision"])
        folder = Path(options["model_dir"]).expanduser()
        self._package, self._parse = inference_utils, parse_transcript
        self._device = inference_utils.resolve_device(options["device"])
        self._dtype = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        # The model's code comes with its weights: the operator has put both into this folder.
        model = AutoModelForCausalLM.from_pretrained(str(folder), trust_remote_code=True, dtype="auto")
        self._model = model.to(dtype=self._dtype).to(self._device).eval()
        self._processor = AutoProcessor.from_pretrained(str(folder), trust_remote_code=True)
        self._question = options["question"]
        if self._question not in _QUESTIONS:
            fault = f"options.question: {self._question!r} is not one of {', '.join(_QUESTIONS)}"
            raise EngineError("engine_not_ready", fault)
        self.info = {"model_id": self._model_id, "device": str(self._device)}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        heard = Heard(len(samples) / RATE)
        question = _QUESTIONS[self._question] or self._asked_in(run, samples)
        budget = min(MOST_TOKENS, LEAST_TOKENS + int(TOKENS_PER_SECOND * heard.length_s))
        text, count = self._written(run, samples, question, budget, again=bool(run.parameters.get("again")))
        if count >= budget:
            heard.doubts.append(f"The model was stopped after {count} tokens.")
        self._read(text, heard)
        return heard.told(self._model_id, self._revision, None)

    def _asked_in(self, run: Run, samples: Floats) -> str:
        """The prompt in the right language, decided by transcribing a short, loud stretch.

        With a Chinese prompt and other speech, the model invents Chinese or omits the times.
        """
        probe = loudest(samples, PROBE_S)
        budget = LEAST_TOKENS + int(TOKENS_PER_SECOND * PROBE_S)
        text, _ = self._written(run, probe, CHINESE, budget, again=False, stage="language")
        words = "".join(segment.text for segment in self._parse(text))
        is_chinese = len(_HAN.findall(words)) > len(letters(words)) / 2 and not _KANA.search(words)
        return CHINESE if is_chinese else ENGLISH

    def _written(
        self,
        run: Run,
        samples: Floats,
        question: str,
        budget: int,
        *,
        again: bool,
        stage: str = "recognising",
    ) -> tuple[str, int]:
        """The model's answer, and its number of tokens."""
        expected = max(1, int(USUAL_TOKENS_PER_SECOND * len(samples) / RATE))

        def hear(tokens: int) -> None:
            run.check_cancelled()
            run.progress(stage, min(tokens, expected), expected, "tokens")

        written = self._package.generate_transcription(
            self._model,
            self._processor,
            self._package.build_transcription_messages(samples, question),
            max_new_tokens=budget,
            device=self._device,
            dtype=self._dtype,
            token_callback=hear,
            **(_SAMPLED if again else {"do_sample": False}),
        )
        return str(written["text"]), int(written["generated_tokens"])

    def _read(self, text: str, heard: Heard) -> None:
        """The segments of `[start][S01]words[end]…`; text outside of them is recorded as a doubt."""
        read = ""
        for segment in self._parse(text):
            read += segment.text
            label = label_of(segment.text)
            if label in (None, "speech"):
                words = "" if label else segment.text
                heard.add(segment.start, segment.end, words, speaker=segment.speaker, type="speech")
            else:
                heard.add(segment.start, segment.end, "", speaker=None, type=label)
        words = len(letters(_MARK.sub("", text)))
        if words - len(letters(read)) > LOST_SHARE * words:
            heard.doubts.append("Some of the words have no times and were left out.")
        if words and not heard.segments and not heard.misplaced:
            raise EngineError("engine_failed", "The model wrote no times at all.")


_QUESTIONS = {"auto": "", "zh": CHINESE, "en": ENGLISH}
