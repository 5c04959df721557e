"""Speech by Supertonic 3 on a processor: four ONNX graphs, from the characters of a text to a WAV file.

A duration is predicted from the characters and a voice, the characters are encoded, noise of that duration is
refined step by step, and a vocoder makes sound of it. The order, names and shapes of the graphs' inputs are
those of the model's published example (supertone-inc/supertonic, `py/helper.py`). It knows neither jobs nor
accounts nor callers' voices.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tenuto_engine import EngineError, InputError, Result, Run, cutting
from tenuto_engine.wav import duration_ms, pcm16_wav

LANGUAGES = ("ar", "en", "ja", "es")
UNKNOWN = "na"
"""The model's own mark of a language that it does not know."""
GRAPHS = ("duration_predictor", "text_encoder", "vector_estimator", "vocoder")
PACE = 1.05
"""By how much the model is hurried at its usual pace."""
MOST_CHARACTERS: Mapping[str, int] = {"ja": 120}
USUAL_CHARACTERS = 300
"""Of one piece: the model speaks longer texts worse."""
LONGEST_PIECE_S = 120.0
MARKS = {"–": "-", "‑": "-", "—": "-", "_": " ", "“": '"', "”": '"', "‘": "'", "’": "'", "´": "'", "`": "'"}
SPACES = "[]|/#→←"
ENDED = re.compile(r"""[.!?;:,'")\]}…。」』】〉》›»؟،؛]$""")


class Supertonic:
    """The loaded graphs, and one voice. The same text gives the same samples."""

    def __init__(self, options: dict[str, Any]) -> None:
        import onnxruntime

        folder = Path(options["path"]).expanduser()
        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = int(options["threads"])
        self._graphs = {
            name: onnxruntime.InferenceSession(
                str(folder / "onnx" / f"{name}.onnx"), session, providers=["CPUExecutionProvider"]
            )
            for name in GRAPHS
        }
        settings = json.loads((folder / "onnx" / "tts.json").read_text("utf-8"))
        self._rate = int(settings["ae"]["sample_rate"])
        self._frame = int(settings["ae"]["base_chunk_size"]) * int(settings["ttl"]["chunk_compress_factor"])
        self._width = int(settings["ttl"]["latent_dim"]) * int(settings["ttl"]["chunk_compress_factor"])
        self._numbers: list[int] = json.loads((folder / "onnx" / "unicode_indexer.json").read_text("utf-8"))
        self._voice = _voice(folder / "voice_styles", str(options["voice"]))
        self._steps = int(options["steps"])
        self._about = {"model_id": options["model"], "model_revision": options["model_revision"]}
        self.info = {**self._about, "sample_rate": self._rate, "voice": options["voice"]}

    def run(self, run: Run) -> Result:
        """Synthesise the text piece by piece; the result is the pieces joined, with pauses between them."""
        parameters = run.parameters
        lang = str(parameters["lang"])
        lang = lang if lang in LANGUAGES else UNKNOWN
        text, left_out = self._readable(str(parameters["text"]))
        pieces = split(text, MOST_CHARACTERS.get(lang, USUAL_CHARACTERS))
        if not pieces:
            raise InputError("nothing_to_speak", "The text has nothing that can be spoken.")
        spoken: list[bytes] = []
        for piece in pieces:
            run.check_cancelled()
            pause = bytes(2 * (self._rate * int(parameters["interval_silence"]) // 1000)) if spoken else b""
            spoken.append(pause + self._spoken(run, piece, lang, float(parameters["duration_factor"])))
            if parameters["stream"]:
                length = duration_ms(spoken[-1], self._rate)
                run.segment(pcm16_wav(spoken[-1], self._rate), {"duration_ms": length})
            run.progress("synthesis", len(spoken), len(pieces), "segments")
        samples = b"".join(spoken)
        length = duration_ms(samples, self._rate)
        warnings = [f"Not spoken, because the model does not know them: {left_out}"] if left_out else []
        measured = {"sample_rate": self._rate, "channels": 1, "duration_ms": length, "segments": len(pieces)}
        content = pcm16_wav(samples, self._rate)
        return Result("audio/wav", content, {**measured, **self._about, "warnings": warnings}, length)

    def _readable(self, text: str) -> tuple[str, str]:
        """The text in the characters that the model knows, and those that it does not."""
        plain = unicodedata.normalize("NFKD", text)
        plain = "".join(" " if sign in SPACES else MARKS.get(sign, sign) for sign in plain)
        unknown = dict.fromkeys(sign for sign in plain if self._number(sign) < 0 and not sign.isspace())
        known = "".join(sign if self._number(sign) >= 0 else " " for sign in plain)
        return known, "".join(sign for sign in unknown if sign.isalnum())[:20]

    def _number(self, sign: str) -> int:
        return self._numbers[ord(sign)] if ord(sign) < len(self._numbers) else -1

    def _spoken(self, run: Run, piece: str, lang: str, factor: float) -> bytes:
        """PCM16 of one piece; shapes are those of a batch of one."""
        piece = re.sub(r"\s+", " ", piece).strip()
        piece += "" if ENDED.search(piece) else "."
        marked = f"<{lang}>{piece}</{lang}>"
        text = {
            "text_ids": np.array([[self._number(sign) for sign in marked]], np.int64),
            "text_mask": np.ones((1, 1, len(marked)), np.float32),
        }
        seconds = float(self._made("duration_predictor", style_dp=self._voice["style_dp"], **text)[0])
        seconds *= factor / PACE
        if not 0 < seconds <= LONGEST_PIECE_S:
            raise EngineError("engine_failed", f"the model wants {seconds} s for {len(piece)} characters")
        style = {"style_ttl": self._voice["style_ttl"], "text_mask": text["text_mask"]}
        encoded = self._made("text_encoder", text_ids=text["text_ids"], **style)
        frames = max(1, -(-int(seconds * self._rate) // self._frame))
        # Drawn from the text: an attempt that is repeated gives the same samples.
        drawn = np.random.default_rng(int.from_bytes(hashlib.sha256(marked.encode()).digest()[:8], "big"))
        latent = drawn.standard_normal((1, self._width, frames)).astype(np.float32)
        mask = np.ones((1, 1, frames), np.float32)
        for step in range(self._steps):
            run.check_cancelled()
            latent = self._made(
                "vector_estimator",
                noisy_latent=latent,
                text_emb=encoded,
                latent_mask=mask,
                current_step=np.array([step], np.float32),
                total_step=np.array([self._steps], np.float32),
                **style,
            )
        sound = self._made("vocoder", latent=latent).reshape(-1)[: int(seconds * self._rate)]
        if not np.isfinite(sound).all():
            raise EngineError("engine_failed", "the model gave samples that are NaN or infinite")
        samples: bytes = np.round(np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
        return samples

    def _made(self, graph: str, **inputs: Any) -> Any:
        return self._graphs[graph].run(None, inputs)[0]


def split(text: str, most: int) -> list[str]:
    """Pieces of at most `most` characters; those without anything to speak are left out."""
    return [piece for piece in cutting.split(text, most) if cutting.speaks(piece)]


def _voice(folder: Path, name: str) -> dict[str, Any]:
    """A voice's two styles: of its durations, and of its sound."""
    file = folder / f"{Path(name).name}.json"
    if not file.is_file():
        there = ", ".join(sorted(one.stem for one in folder.glob("*.json")))
        raise EngineError("engine_failed", f"there is no voice {name}; there are {there}")
    written = json.loads(file.read_text("utf-8"))
    return {
        key: np.array(written[key]["data"], np.float32).reshape(1, *written[key]["dims"][1:])
        for key in ("style_ttl", "style_dp")
    }
