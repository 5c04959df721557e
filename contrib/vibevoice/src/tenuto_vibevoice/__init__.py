"""Recognition by VibeVoice-ASR: words with speakers, times and sound labels, chunk by chunk.

Runs in the interpreter that has the model's package, `vibevoice`, from its repository. The model
detects the language. It knows neither jobs nor other chunks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tenuto_engine import EngineError, Result, Run
from tenuto_engine_kit.recognition import RATE, Heard, label_of, number, part_of

MODEL_RATE = 24_000
"""The model assumes this rate, whatever rate is passed with the samples."""
TOKENS_PER_SECOND, LEAST_TOKENS, MOST_TOKENS = 24, 1024, 32_768
USUAL_TOKENS_PER_SECOND = 10

_SAMPLED = {"do_sample": True, "temperature": 0.6, "top_p": 0.95}
"""The settings for a retry: after repetitions, greedy decoding would only repeat again."""
_NAMES = {
    "Start time": "start_time",
    "Start": "start_time",
    "End time": "end_time",
    "End": "end_time",
    "Speaker ID": "speaker_id",
    "Speaker": "speaker_id",
    "Content": "text",
}


class VibeVoice:
    """The loaded model; one chunk at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch
        from vibevoice.modular.modeling_vibevoice_asr import VibeVoiceASRForConditionalGeneration
        from vibevoice.processor.vibevoice_asr_processor import VibeVoiceASRProcessor

        self._torch = torch
        self._model_id, self._revision = str(options["model"]), str(options["model_revision"])
        folder = str(Path(options["model_dir"]).expanduser())
        self._processor = VibeVoiceASRProcessor.from_pretrained(
            folder, language_model_pretrained_name=options["tokenizer"]
        )
        device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
        model = VibeVoiceASRForConditionalGeneration.from_pretrained(
            folder,
            dtype=torch.bfloat16 if device.startswith("cuda") else torch.float32,
            attn_implementation=options["attention"],
            trust_remote_code=True,
        )
        self._model = model.to(device).eval()
        self._device = device
        self.info = {"model_id": self._model_id, "device": device}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        heard = Heard(len(samples) / RATE)
        budget = min(MOST_TOKENS, LEAST_TOKENS + int(TOKENS_PER_SECOND * heard.length_s))
        text, count = self._written(run, _resampled(samples), heard.length_s, budget)
        if count >= budget:
            heard.doubts.append(f"The model was stopped after {count} tokens.")
        for item in self._items(text, heard):
            _add(item, heard)
        return heard.told(self._model_id, self._revision, None)

    def _written(self, run: Run, samples: Any, length_s: float, budget: int) -> tuple[str, int]:
        """The model's answer, and its number of tokens."""
        inputs = self._processor(audio=samples, return_tensors="pt", add_generation_prompt=True)
        inputs = {name: value.to(self._device) for name, value in inputs.items()}
        listener = _Listener(run, max(1, int(USUAL_TOKENS_PER_SECOND * length_s)))
        with self._torch.no_grad():
            ids = self._model.generate(
                **inputs,
                max_new_tokens=budget,
                num_beams=1,
                pad_token_id=self._processor.pad_id,
                eos_token_id=self._processor.tokenizer.eos_token_id,
                streamer=listener,
                **(_SAMPLED if run.parameters.get("again") else {"do_sample": False}),
            )
        written = ids[0, inputs["input_ids"].shape[1] :]
        return str(self._processor.decode(written, skip_special_tokens=True)), int(written.shape[0])

    def _items(self, text: str, heard: Heard) -> list[dict[str, Any]]:
        """The answer as the package parses it. It returns nothing for broken JSON: then the complete objects
        are used, and if there are none, the run fails instead of reporting silence."""
        items = self._processor.post_process_transcription(text)
        if items or _is_empty_list(text):
            return [item for item in items if isinstance(item, dict)]
        whole = _whole_items(text)
        if not whole:
            raise EngineError("engine_failed", "The model's answer is no JSON.")
        heard.doubts.append(f"The model's answer broke off after {len(whole)} segments.")
        return whole


class _Listener:
    """Counts tokens as they are generated, and cancels generation by raising."""

    def __init__(self, run: Run, expected: int) -> None:
        self._run = run
        self._expected = expected
        self._tokens = -1
        """Skips the prompt, which comes first."""

    def put(self, value: Any) -> None:
        self._run.check_cancelled()
        self._tokens += 1
        self._run.progress("recognising", min(self._tokens, self._expected), self._expected, "tokens")

    def end(self) -> None:
        """Nothing to do at the end."""


def _resampled(samples: Any) -> Any:
    import librosa

    return librosa.resample(samples, orig_sr=RATE, target_sr=MODEL_RATE)


def _add(item: dict[str, Any], heard: Heard) -> None:
    text = item.get("text")
    text = text if isinstance(text, str) else ""
    start, end = item.get("start_time"), item.get("end_time")
    label = label_of(text)
    if label is not None and label != "speech":
        heard.add(start, end, "", speaker=None, type=label)
        return
    who = number(item.get("speaker_id"))
    speaker = None if who is None or not 0 <= who < 1000 else f"S{int(who) + 1:02}"
    heard.add(start, end, "" if label else text, speaker=speaker, type="speech")


def _is_empty_list(text: str) -> bool:
    try:
        return bool(json.loads(text) == [])
    except (ValueError, RecursionError):
        return False


def _whole_items(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON list up to the first broken one, with the package's field names."""
    decoder, found = json.JSONDecoder(), []
    at = text.find("{")
    while at >= 0:
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if isinstance(item, dict):
            found.append({_NAMES[name]: value for name, value in item.items() if name in _NAMES})
        at = text.find("{", at)
    return [item for item in found if item]
