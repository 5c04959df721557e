"""How like the speaker the engine sounds when a job names a recorded voice, and whether it can still be
understood: nine people, none of whom had a part in fitting the engine.

    python -m lab.quality.likeness [--write]

Likeness is the cosine of the speaker encoder's embeddings of the recording and of the speech. The encoder is
the engine's own, so the figure tells how well the mapping does what it is for; whether each is more like its
own recording than like any of the others asks for more than a high cosine.
"""

from __future__ import annotations

import argparse
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import soxr
from faster_whisper import WhisperModel

from tenuto.features.models.cache import default_cache
from tenuto_engine_kit.speaker_embedding import SAMPLE_RATE, SpeakerEncoder
from tenuto_kokoro import KokoroEngine

from .document import write_section
from .read_back import PARAMETERS, WEIGHTS, QuietRun, heard, read_sentences
from .sounding import error_rate, sounding

CACHE = default_cache()
SENTENCES_FILE = Path(__file__).with_name("sentences.tsv")
SENTENCES = 2
"""So many of each language's, the first ones."""
LANGUAGES = ("en", "zh")
LONGEST_S = 12
LIKENESS_TARGET, OWN_TARGET, ERROR_TARGET = 0.65, 0.8, 0.03

INTRODUCTION = """\
Recordings of nine people, none of which were used to fit the engine, each as the voice of two sentences in
English and two in Chinese. Likeness is the cosine similarity between the speaker encoder's embeddings of the
recording and of the speech, shown beside that of the original voice; two recordings of one person reach about
0.89, of two different people about 0.55. The encoder is the engine's own, so another judge may differ. The
error is measured as above."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Imitation:
    """One sentence in somebody's voice."""

    person: str
    lang: str
    embedding: Floats
    error: float


class Studio:
    """The engine, the encoder and the judge."""

    def __init__(self, model: WhisperModel) -> None:
        weights = {name: str(CACHE / name) for name in WEIGHTS}
        self._engine = KokoroEngine({"weights": weights})
        self._encoder = SpeakerEncoder(CACHE / "resemblyzer.pt")
        self._model = model
        self._sentences = {
            lang: [at for at in read_sentences(SENTENCES_FILE) if at.lang == lang][:SENTENCES]
            for lang in LANGUAGES
        }

    def embedding(self, content: bytes) -> Floats:
        """Of a WAV file."""
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
        return self._encoder.embed(soxr.resample(samples.mean(axis=1), rate, SAMPLE_RATE))

    def imitations(self, person: str, recording: bytes | None) -> list[Imitation]:
        """All sentences in the voice of a recording, or in the original voice."""
        voice: dict[str, Any] = {"voice_id": person, "kind": "own", "profile": {}, "profile_version": None}
        made = []
        for lang, sentences in self._sentences.items():
            for sentence in sentences:
                parameters: dict[str, Any] = {**PARAMETERS, "lang": lang, "text": sentence.text}
                run = QuietRun({**parameters, "voice": voice if recording else None})
                run.inputs = {"voice": recording} if recording else {}
                content = self._engine.run(run).content
                written = sounding(lang, heard(self._model, lang, content))
                error = error_rate(sounding(lang, sentence.sounds), written)
                made.append(Imitation(person, lang, self.embedding(content), error))
        return made


def recordings() -> dict[str, bytes]:
    """The people's recordings as they would be admitted: PCM16 WAV files of at most 15 s."""
    found = {}
    for place in sorted((CACHE / "reference-voices").glob("*.wav")):
        samples, rate = soundfile.read(place, dtype="float32", always_2d=True)
        output = io.BytesIO()
        soundfile.write(output, samples[: LONGEST_S * rate], rate, subtype="PCM_16", format="WAV")
        found[place.stem] = output.getvalue()
    return found


def section(model: WhisperModel) -> tuple[list[str], bool]:
    """The document's lines, and whether every target is met."""
    studio, people = Studio(model), recordings()
    known = {person: studio.embedding(recording) for person, recording in people.items()}
    plain = studio.imitations("original", None)
    made = [one for person, recording in people.items() for one in studio.imitations(person, recording)]
    lines = [
        "| recording | likeness | of the original voice | nearest to itself | error |",
        "|---|---|---|---|---|",
    ]
    for person in people:
        own = [one for one in made if one.person == person]
        lines.append(
            f"| {person} | {_likeness(own, known[person]):.2f} | {_likeness(plain, known[person]):.2f} "
            f"| {sum(_is_nearest(one, known) for one in own)} of {len(own)} "
            f"| {mean(one.error for one in own):.3f} |"
        )
    alike = median(float(known[one.person] @ one.embedding) for one in made)
    share = mean(_is_nearest(one, known) for one in made)
    lines += ["", f"Likeness, median of all: {alike:.2f} (target {LIKENESS_TARGET})."]
    lines += [f"Nearest to itself among the {len(people)} recordings: {share:.0%} (target {OWN_TARGET:.0%})."]
    good = alike >= LIKENESS_TARGET and share >= OWN_TARGET
    for lang in LANGUAGES:
        before, after = _error(plain, lang), _error(made, lang)
        lines += [f"Error in {lang}: {after:.3f}; original voice {before:.3f} (target {ERROR_TARGET} more)."]
        good = good and after <= before + ERROR_TARGET
    return lines, good


def _likeness(imitations: list[Imitation], known: Floats) -> float:
    return median(float(known @ one.embedding) for one in imitations)


def _is_nearest(one: Imitation, known: dict[str, Floats]) -> bool:
    return one.person == max(known, key=lambda person: float(known[person] @ one.embedding))


def _error(imitations: list[Imitation], lang: str) -> float:
    return mean(one.error for one in imitations if one.lang == lang)


def main() -> int:
    """Measure, print, and write the section where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section into lab/records/quality.md")
    arguments = parser.parse_args()
    model = WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    lines, good = section(model)
    print("\n".join(lines))
    if arguments.write:
        write_section("Voices from recordings", [*INTRODUCTION.splitlines(), "", *lines])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
