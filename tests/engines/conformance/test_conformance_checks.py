"""The conformance suite itself: an engine that is right passes, and each check finds what breaks its rule."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest

from tenuto_engine.conformance import CHECKS, Check, Nonconformance, Subject, Trial, checks
from tenuto_engine.conformance.process import Outcome
from tenuto_engine.conformance.results import check_pieces, check_result
from tenuto_engine.wav import pcm16_wav
from tenuto_pictograms.canvas import png

ROOT = Path(__file__).parents[3]
SOUND = Subject(
    engine="toys:Toy",
    kind="speech",
    honoured=("text", "stream", "duration_factor"),
    languages=("en",),
    concurrency=2,
    path=str(Path(__file__).parent),
    run_timeout_s=60.0,
)
BROKEN: dict[Check, dict[str, str]] = {
    checks.loads: {
        "DoesNotLoad": "did not load: FileNotFoundError",
        "OneAtATime": "2 runs at once, the loaded engine 1",
    },
    checks.gives_a_result: {
        "WrongDuration": "duration_ms is 207 ms; its samples last 200 ms",
    },
    checks.reports_progress: {
        "Mute": "neither progress nor a segment",
    },
    checks.shows_segments: {
        "DropsASegment": "the segments joined are not the result",
        "ShowsUnasked": "segments were shown, and stream is false",
    },
    checks.runs_again: {"WorksOnce": "RuntimeError: the model is gone"},
    checks.runs_at_once: {"SharesItsState": "one of 2 runs at once ended as failed"},
    checks.honours_what_it_declares: {"Brittle": "duration_factor changed ended as failed"},
    checks.ignores_what_it_does_not_declare: {"ReadsMore": "top_k.* changes the result"},
    checks.refuses_what_is_wrong: {
        "TellsItsPath": "callers would read: ValueError in /",
    },
    checks.stops_when_cancelled: {
        "Deaf": "did not stop within 5 s",
    },
    checks.keeps_stdout_clean: {"Prints": "on stdout: 'speaking"},
    checks.stops_in_a_run: {
        "HoldsTheLock": "was still there 5 s after its connection was closed",
        "LeavesAProcess": "it left processes running",
    },
    checks.stops_when_idle: {
        "LeavesAFile": "it left in the folder for temporary files: ..toy-",
        "LeavesAProcess": "it left processes running",
    },
}
WRONG = [(check, name, fault) for check, faults in BROKEN.items() for name, fault in faults.items()]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with Trial(replace(SOUND, grace_s=60.0)) as trial:
        yield trial


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_engine_that_is_right_passes(trial: Trial, check: Check) -> None:
    check(trial)


@pytest.mark.parametrize(("check", "toy", "fault"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_each_check_finds_what_breaks_its_rule(check: Check, toy: str, fault: str) -> None:
    with Trial(replace(SOUND, engine=f"toys:{toy}")) as trial, pytest.raises(Nonconformance, match=fault):
        check(trial)


def test_every_check_has_an_engine_that_fails_it() -> None:
    assert set(CHECKS) == set(BROKEN)


def outcome(content: bytes, **more: Any) -> Outcome:
    header = {"media_type": "text/plain", "metadata": {}, "duration_ms": None, **more}
    return Outcome("result", header, content)


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "finish_reason": "stop"}


def transcript(*segments: Any, **more: Any) -> Outcome:
    content = json.dumps({"segments": list(segments), **more}).encode()
    return outcome(content, media_type="application/json")


WAV = pcm16_wav(b"\xff\x20" * 1000, 8000)
PNG = png(np.zeros((16, 8, 3), np.float32))


def spoken(content: bytes = WAV, **more: Any) -> Outcome:
    return outcome(content, **{"media_type": "audio/wav", **more})


def piece(start: float, end: float, text: str = "") -> tuple[bytes, dict[str, Any]]:
    return text.encode(), {"start": start, "end": end}


@pytest.mark.parametrize(
    ("pieces", "fault"),
    [
        ([piece(0, 0.5, "Hold"), piece(0.5, 1, "it.")], ""),
        ([piece(0, 0.5, "Hold")], "not the text of the transcript"),
        ([piece(0.5, 1, "Hold"), piece(0, 0.5, "it.")], "starts at 0 s, behind one that starts at 0.5 s"),
        ([piece(0, 9, "Hold it.")], "from 0 to 9 s of 1.0 s"),
        ([(b"Hold it.", {})], "from None to None s"),
        ([(b"\xff", {"start": 0, "end": 1})], "not UTF-8"),
    ],
)
def test_text_that_is_reported_early_is_the_transcripts(pieces: list[Any], fault: str) -> None:
    """In order, inside the audio, all of it; spaces are whose who joins them."""
    whole = transcript({"start": 0, "end": 1, "text": "Hold it."})
    reported = replace(whole, segments=pieces)
    if not fault:
        check_pieces(reported, bytes(32_000))
        return
    with pytest.raises(Nonconformance, match=fault):
        check_pieces(reported, bytes(32_000))


@pytest.mark.parametrize(
    ("kind", "result", "fault"),
    [
        ("speech", spoken(media_type="audio/mpeg"), "'audio/mpeg', not 'audio/wav'"),
        ("speech", spoken(content=WAV[:-100]), "header declares"),
        (
            "speech",
            spoken(metadata={"sample_rate": 44_100}),
            "metadata.sample_rate is 44100; the WAV has 8000",
        ),
        ("speech", spoken(content=pcm16_wav(bytes(2000), 8000)), "the result is silent"),
        ("image", outcome(PNG + b"x", media_type="image/png"), "does not end where"),
        ("image", outcome(PNG, media_type="image/png"), "8 × 16, not 8 × 8"),
        ("image", outcome(PNG, media_type="image/jpeg"), "'image/jpeg', not 'image/png'"),
        ("chat", outcome(b"two words", metadata=USAGE | {"finish_reason": "tired"}), "'tired', not stop"),
        ("chat", outcome(b"two words", metadata=USAGE | {"prompt_tokens": None}), "prompt_tokens is None"),
        ("chat", outcome(b"\xff", metadata=USAGE), "not UTF-8"),
        ("chat", outcome(b"", metadata=USAGE | {"warnings": "one"}), "warnings is not a list"),
        ("recognition", outcome(b"{", media_type="application/json"), "not JSON"),
        ("recognition", outcome(b'{"x": NaN}', media_type="application/json"), "not JSON"),
        ("recognition", transcript({"start": 0, "end": 9, "text": ""}), "from 0 to 9 s of 1.0 s"),
        ("recognition", transcript({"start": 1, "end": 0, "text": ""}), "from 1 to 0 s"),
        ("recognition", transcript({"start": 0, "end": 1, "text": None}), "has no text"),
        ("recognition", transcript(doubts="none"), "doubts of the transcript"),
        ("image", outcome(b"GIF89a", media_type="image/png"), "not a PNG"),
    ],
)
def test_results_of_every_kind_are_checked(kind: str, result: Outcome, fault: str) -> None:
    with pytest.raises(Nonconformance, match=fault):
        check_result(kind, result, {"text": "x", "width": 8, "height": 8}, {"audio": bytes(32_000)})


def installed(folder: Path, *, honoured: str) -> Path:
    """The example engine as an installed package, with what its manifest declares."""
    package = folder / "tenuto_morse"
    package.mkdir()
    source = ROOT / "examples" / "engine" / "src" / "tenuto_morse"
    (package / "__init__.py").write_text((source / "__init__.py").read_text("utf-8"), "utf-8")
    manifest = (source / "engine.toml").read_text("utf-8").replace('"duration_factor"', honoured)
    (package / "engine.toml").write_text(manifest, "utf-8")
    metadata = folder / "tenuto_morse-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tenuto-morse\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tenuto.engines]\nmorse = tenuto_morse:Morse\n")
    return folder


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tenuto_engine.conformance", *arguments]
    return subprocess.run(
        line, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.parametrize(
    ("honoured", "status", "line"),
    [
        ('"duration_factor"', 0, "passed  honours_what_it_declares"),
        ('"tempo"', 1, "honours_what_it_declares .*'tempo' is not a parameter of speech"),
    ],
)
def test_the_command_examines_an_installed_package(
    tmp_path: Path, honoured: str, status: int, line: str
) -> None:
    """A line for each check; the exit status says whether all passed. The example engine does."""
    done = command(installed(tmp_path, honoured=honoured), "tenuto-morse")

    assert status == done.returncode, done.stdout + done.stderr
    assert "morse (speech, tenuto_morse:Morse)" in done.stdout
    assert [check.__name__ for check in CHECKS] == [row.split()[1] for row in done.stdout.splitlines()[1:]]
    assert re.search(line, done.stdout), done.stdout


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    named = {name: command(tmp_path, name) for name in ("nobody", "indextts-2.5", "kokoro")}

    assert {2} == {done.returncode for done in named.values()}
    assert "nobody: no entry point in the group tenuto.engines" in named["nobody"].stderr
    assert "indextts-2.5 needs the options model_dir, reference" in named["indextts-2.5"].stderr
    assert "kokoro needs the weights kokoro-v1.0-int8.onnx" in named["kokoro"].stderr


def test_what_does_not_apply_is_skipped() -> None:
    """With the exception of the standard library, which pytest understands."""
    subject = replace(SOUND, engine="toys:OneAtATime", concurrency=1)
    with Trial(subject) as trial, pytest.raises(SkipTest, match="one run at a time"):
        checks.runs_at_once(trial)
