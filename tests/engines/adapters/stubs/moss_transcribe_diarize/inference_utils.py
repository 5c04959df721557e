"""As OpenMOSS/MOSS-Transcribe-Diarize has it: a message with sound in memory, and the text that is generated.

Of its traps: greedy unless told otherwise, 5,120 tokens unless told otherwise, stops without a word of it.
"""

from __future__ import annotations

from typing import Any

import torch

DEFAULT_PROMPT = (
    "请将音频转写为文本，每一段需以起始时间戳和说话人编号"
    "（[S01]、[S02]、[S03]…）开头，正文为对应的语音内容，"
    "并在段末标注结束时间戳，以清晰标明该段语音范围。"
)


def resolve_device(device: str) -> Any:
    return torch.device("cpu" if device == "auto" else device)


def build_transcription_messages(audio_path: Any, prompt: str = DEFAULT_PROMPT) -> list[dict[str, Any]]:
    audio = {"type": "audio", "audio": audio_path}
    return [{"role": "user", "content": [audio, {"type": "text", "text": prompt.strip() or DEFAULT_PROMPT}]}]


def generate_transcription(
    model: Any, processor: Any, messages: Any, *, max_length: int = 131072, max_new_tokens: int | None = None,
    do_sample: bool = False, temperature: float | None = None, top_p: float | None = None,
    top_k: int | None = None, device: Any = None, dtype: Any = None, input_callback: Any = None,
    token_callback: Any = None, attention_report: Any = None,
) -> dict[str, Any]:  # fmt: skip
    audio, question = messages[0]["content"]
    said = {"do_sample": do_sample, "temperature": temperature, "max_new_tokens": max_new_tokens}
    model.playbook.note("generate", samples=len(audio["audio"]), question=question["text"], **said)
    answer = model.playbook.next()
    if isinstance(answer, dict):
        answer = answer["zh" if question["text"] == DEFAULT_PROMPT else "en"]
    tokens = answer[: max_new_tokens or 5120]
    for number in range(1, len(tokens) + 1):
        if token_callback is not None:
            token_callback(number)
    return {"text": tokens.strip(), "prompt_len": 7, "generated_tokens": len(tokens)}
