"""A speech engine that passes the conformance suite, and engines that each break one of its rules."""

from __future__ import annotations

import array
import ctypes
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from tenuto_engine import InputError, Result, Run
from tenuto_engine.wav import duration_ms, pcm16_wav

RATE = 8_000
WORD_S = 0.05
LONG_CHARACTERS, PAUSE_S = 500, 0.02
"""A long text takes seconds, so that it can be cancelled."""


class Toy:
    """A tone for each word; a word is a segment."""

    concurrency = 2

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = {"model_id": "toy"}

    def run(self, run: Run) -> Result:
        text = run.parameters["text"]
        words = [word for word in text.split() if any(sign.isalnum() for sign in word)]
        if not words:
            raise InputError("nothing_to_speak", "The text has no words.")
        spoken: list[bytes] = []
        for number, word in enumerate(words):
            self.before_word(run, text)
            spoken.append(self.tone(word, run.parameters))
            self.show(run, spoken[-1], number)
            run.progress("speaking", number + 1, len(words), "words")
        return self.result(b"".join(spoken))

    def before_word(self, run: Run, text: str) -> None:
        run.check_cancelled()
        time.sleep(PAUSE_S if len(text) > LONG_CHARACTERS else 0)

    def tone(self, word: str, parameters: dict[str, Any]) -> bytes:
        frames = int(RATE * WORD_S * parameters["duration_factor"])
        step = 2 * math.pi * (300 + 10 * len(word)) / RATE
        return array.array("h", (round(9000 * math.sin(step * n)) for n in range(frames))).tobytes()

    def show(self, run: Run, samples: bytes, number: int) -> None:
        if run.parameters["stream"]:
            run.segment(pcm16_wav(samples, RATE), {"duration_ms": duration_ms(samples, RATE)})

    def result(self, samples: bytes) -> Result:
        return Result("audio/wav", pcm16_wav(samples, RATE), {}, duration_ms(samples, RATE))


class DoesNotLoad(Toy):
    def __init__(self, options: dict[str, Any]) -> None:
        raise FileNotFoundError("weights.bin")


class OneAtATime(Toy):
    concurrency = 1


class WrongDuration(Toy):
    def result(self, samples: bytes) -> Result:
        return Result("audio/wav", pcm16_wav(samples, RATE), {}, duration_ms(samples, RATE) + 7)


class _Muted:
    """A run that hands nothing on."""

    def __init__(self, run: Run) -> None:
        self.parameters = run.parameters
        self.check_cancelled = run.check_cancelled

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None: ...

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None: ...


class Mute(Toy):
    def run(self, run: Run) -> Result:
        return super().run(_Muted(run))  # type: ignore[arg-type]


class DropsASegment(Toy):
    def show(self, run: Run, samples: bytes, number: int) -> None:
        if number != 1:
            super().show(run, samples, number)


class ShowsUnasked(Toy):
    def show(self, run: Run, samples: bytes, number: int) -> None:
        run.segment(pcm16_wav(samples, RATE), {})


class WorksOnce(Toy):
    used = False

    def run(self, run: Run) -> Result:
        if self.used:
            raise RuntimeError("the model is gone")
        self.used = True
        return super().run(run)


class SharesItsState(Toy):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.meeting = threading.Barrier(2)

    def run(self, run: Run) -> Result:
        # Alone, nobody else comes.
        try:
            self.meeting.wait(0.3)
        except threading.BrokenBarrierError:
            self.meeting.reset()
            return super().run(run)
        raise RuntimeError("two runs at once")


class Brittle(Toy):
    def tone(self, word: str, parameters: dict[str, Any]) -> bytes:
        assert parameters["duration_factor"] == 1
        return super().tone(word, parameters)


class ReadsMore(Toy):
    def tone(self, word: str, parameters: dict[str, Any]) -> bytes:
        return super().tone(word * parameters["top_k"], parameters)


class TellsItsPath(Toy):
    def run(self, run: Run) -> Result:
        if run.parameters.get("text") == "…":
            raise InputError("nothing_to_speak", f"ValueError in {__file__}")
        return super().run(run)


class Deaf(Toy):
    def before_word(self, run: Run, text: str) -> None:
        time.sleep(10 * PAUSE_S if len(text) > LONG_CHARACTERS else 0)


class Prints(Toy):
    def run(self, run: Run) -> Result:
        sys.stdout.write("speaking\n")
        return super().run(run)


class HoldsTheLock(Toy):
    def before_word(self, run: Run, text: str) -> None:
        if len(text) > LONG_CHARACTERS:
            # PyDLL, unlike CDLL, keeps the interpreter's lock during the call.
            ctypes.PyDLL(None).sleep(60)


class LeavesAProcess(Toy):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        subprocess.Popen(["sleep", "60"], start_new_session=True)


class LeavesAFile(Toy):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        os.close(tempfile.mkstemp(prefix="toy-")[0])
