"""Images by a server that answers `POST /images/generations`: vLLM-Omni, SGLang, OpenAI.

The picture comes back inside the answer; an address to fetch it from is never followed. Servers that know
a few sizes only are asked for the nearest, and the picture is cut. Knows no jobs.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from tenuto_engine import EngineError, Result, Run
from tenuto_engine_kit import picture

from .call import Calls, Server, parsed

MAX_ANSWER_BYTES = 96 << 20
_SIZE = re.compile(r"([1-9]\d{1,4})x([1-9]\d{1,4})\Z")
_SENT = ("num_inference_steps", "guidance_scale", "seed")


class UpstreamImage:
    """The server of one model."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._server = Server(options)
        self._options = options
        self._sizes = [_size(text) for text in options["sizes"]]
        self._sent = [name for name in _SENT if name in options["honoured"]]
        self.concurrency = int(options["connections"])
        self.info = {"model_id": options["model"], "metered": self._server.metered}

    def run(self, run: Run) -> Result:
        """One PNG of exactly the requested size."""
        calls, parameters = Calls(self._server, run), run.parameters
        width, height = int(parameters["width"]), int(parameters["height"])
        size = _nearest(self._sizes, width, height)
        body = self._body(parameters, size)
        answer = calls.post_json(
            "images/generations", body, MAX_ANSWER_BYTES, lambda: run.progress("drawing", 0, 1, "images")
        )
        try:
            drawn = picture.opened(_content(parsed(answer.content)))
        except picture.PictureInvalid as error:
            raise calls.unusable(f"something that {error}") from error
        except ValueError as error:
            raise calls.unusable(f"{answer.media_type[:60]} without a picture") from error
        run.progress("drawing", 1, 1, "images")
        metadata: dict[str, Any] = {
            "model_id": self._options["model"],
            "model_revision": self._options["model_revision"],
            "warnings": _warnings(drawn.size, width, height),
        }
        return Result("image/png", picture.png(picture.fitted(drawn, width, height)), metadata)

    def _body(self, parameters: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:
        said: dict[str, Any] = {"model": self._server.model, "prompt": parameters["prompt"], "n": 1}
        said |= {"size": f"{size[0]}x{size[1]}"} | {name: parameters[name] for name in self._sent}
        if self._options["response_format"]:
            said["response_format"] = self._options["response_format"]
        return said


def _size(text: str) -> tuple[int, int]:
    found = _SIZE.match(text)
    if not found:
        raise EngineError("engine_failed", f"the option sizes has {text!r}, which is not like 1024x1024")
    return int(found[1]), int(found[2])


def _nearest(sizes: list[tuple[int, int]], width: int, height: int) -> tuple[int, int]:
    """The size to request: the one with the least surplus after it is scaled to cover the wanted size."""
    if not sizes or (width, height) in sizes:
        return width, height

    def surplus(size: tuple[int, int]) -> tuple[float, int]:
        share = max(width / size[0], height / size[1])
        return round(size[0] * size[1] * share * share / (width * height), 3), abs(size[0] - width)

    return min(sizes, key=surplus)


def _content(value: Any) -> bytes:
    """The picture in an answer. Raises ValueError if there is none."""
    try:
        encoded = value["data"][0]["b64_json"]
        return base64.b64decode(encoded, validate=True)
    except (TypeError, KeyError, IndexError, binascii.Error) as error:
        raise ValueError("no picture") from error


def _warnings(drawn: tuple[int, int], width: int, height: int) -> list[str]:
    if drawn[0] >= width and drawn[1] >= height:
        return []
    return [f"The server drew {drawn[0]} × {drawn[1]} pixels; they were enlarged."]
