"""An example of a third-party engine: speech jobs in Morse code. Needs only Python 3.9."""

import array
import io
import math
import wave

from tenuto_engine import InputError, Result, Run

RATE = 16_000
UNIT_S = 0.06
SIGNS = """
a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. q--.- r.-. s... t- u..-
v...- w.-- x-..- y-.-- z--.. 0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----.
"""
CODE = {sign[0]: sign[1:] for sign in SIGNS.split()}


class Morse:
    """Each word is a segment; a dot lasts one unit, a dash and the pause between letters three."""

    def __init__(self, options: dict) -> None:
        self.pitch = 2 * math.pi * options["pitch_hz"] / RATE
        self.info = {"model_id": options["model"], "model_revision": options["model_revision"]}

    def run(self, run: Run) -> Result:
        unit = round(RATE * UNIT_S * run.parameters["duration_factor"])
        words = run.parameters["text"].lower().split()
        letters = [[CODE[sign] for sign in word if sign in CODE] for word in words]
        letters = [word for word in letters if word]
        if not letters:
            raise InputError("nothing_to_speak", "Morse code has no sign for any of this.")
        samples = array.array("h")
        for number, word in enumerate(letters):
            run.check_cancelled()
            marks = "/".join(" ".join(letter) for letter in word)
            spoken = array.array("h", bytes(14 * unit if number else 0))
            for mark in marks:
                spoken.extend(self.tone({".": 1, "-": 3}.get(mark, 0) * unit))
                spoken.frombytes(bytes({" ": 2, "/": 6}.get(mark, 0) * unit))
            if run.parameters["stream"]:
                run.segment(wav(spoken), {})
            run.progress("speaking", number + 1, len(letters), "words")
            samples += spoken
        return Result("audio/wav", wav(samples), self.info, round(len(samples) * 1000 / RATE))

    def tone(self, frames: int) -> array.array:
        return array.array("h", (round(16_000 * math.sin(self.pitch * n)) for n in range(frames)))


def wav(samples: array.array) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())
    return file.getvalue()
