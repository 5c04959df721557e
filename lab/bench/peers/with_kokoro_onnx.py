"""kokoro-onnx, as its README calls it."""

from typing import Any

from answering import Answer, answer


def load(options: dict[str, Any]) -> Answer:
    """`model`: the ONNX file; `voices`: an NPZ of styles, among them `voice`."""
    from kokoro_onnx import Kokoro

    kokoro = Kokoro(options["model"], options["voices"])

    def speak(request: dict[str, Any]) -> dict[str, Any]:
        samples, rate = kokoro.create(request["text"], options["voice"], lang="en-us")
        return {"seconds": len(samples) / rate}

    return speak


if __name__ == "__main__":
    answer(load)
