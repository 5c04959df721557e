"""How the real engine follows the parameters of speech, over HTTP: pace, emotion, readings, the preview."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from servers.cores import ENGINE_THREADS
from servers.service import RunningService

pytestmark = pytest.mark.real_engine

MODEL = "hexgrad/Kokoro-82M"
TEXT = "She put it on the table."
FEAR = [0, 0, 0, 1, 0, 0, 0, 0]
LONG = "The river was quiet." + " We walked along the bank until the sun went down behind the old mill." * 3
THREADS = f'[models."{MODEL}"]\nthreads = {ENGINE_THREADS}\n'


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the real engines."""
    folder = tmp_path_factory.mktemp("spoken")
    (folder / "tenuto.toml").write_text(THREADS)
    variables = {"TENUTO_CONFIG": str(folder / "tenuto.toml")}
    service = RunningService(folder / "data", engines="real", variables=variables)
    service.start()
    try:
        service.key = service.make_key()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def plain(real: RunningService) -> dict[str, Any]:
    """The text spoken with nothing asked for; the engine is loaded afterwards."""
    return spoken(real)


def spoken(service: RunningService, text: str = TEXT, lang: str = "en", **parameters: Any) -> dict[str, Any]:
    """The result of a job and, as `content`, its bytes."""
    job_id = service.submit(text, model=MODEL, lang=lang, **parameters)
    operation = service.wait(job_id, timeout_s=120)
    assert "succeeded" == operation["state"], operation
    with service.client() as client:
        content = client.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content
    return {**operation["result"], "content": content}


def test_the_length_is_generated_and_not_resampled(real: RunningService, plain: dict[str, Any]) -> None:
    """Twice as long at the same sample rate, to ten percent; larger is slower (R75, R76)."""
    slow = spoken(real, duration_factor=2)

    assert plain["sample_rate"] == slow["sample_rate"]
    assert abs(slow["duration_ms"] / plain["duration_ms"] / 2 - 1) < 0.1


def test_an_emotion_acts_as_much_as_is_asked(real: RunningService, plain: dict[str, Any]) -> None:
    """A vector, half of it, and none of it, which is the same file as without (R78, R79)."""
    none = spoken(real, emo_vector=FEAR, emo_alpha=0)
    whole, half = spoken(real, emo_vector=FEAR), spoken(real, emo_vector=FEAR, emo_alpha=0.5)

    assert plain["content"] == none["content"]
    assert plain["emotion"] is None is none["emotion"]
    assert {"fear": 1.0} == whole["emotion"]["strengths"]
    assert whole["emotion"]["pitch_semitones"] == 2 * half["emotion"]["pitch_semitones"]
    assert whole["duration_ms"] < half["duration_ms"] < plain["duration_ms"]


@pytest.mark.variant("model")
def test_an_emotion_comes_from_words_or_from_a_reference(real: RunningService) -> None:
    """The text's own words, other words, and a voice that lends its emotion, not itself (R77, R80, R81)."""
    with real.client() as client:
        voices = client.get("/v1/voices?limit=100").json()["data"]
    reference = next(voice["voice_id"] for voice in voices if voice["kind"] == "emotion")
    own = spoken(real, "I am so happy!", use_emo_text=True)
    other = spoken(real, use_emo_text=True, emo_text="He was furious!")
    lent = spoken(real, emotion_voice_id=reference)

    assert ["happy"] == list(own["emotion"]["strengths"])
    assert ["angry"] == list(other["emotion"]["strengths"])
    assert "emotion_voice" == lent["emotion"]["source"]
    assert lent["emotion"]["strengths"]


def test_a_random_emotion_is_one_of_the_eight(real: RunningService) -> None:
    """Drawn for the job; all else stays as it was (R83)."""
    found = spoken(real, use_random=True)["emotion"]

    assert "random" == found["source"]
    assert 1 == len(found["strengths"])


@pytest.mark.variant("model")
def test_a_reading_is_spoken_as_written(real: RunningService) -> None:
    """The same character with two readings is two sounds; the usual one is as without (R97)."""
    usual, hang, xing = (
        spoken(real, text, "zh")["content"] for text in ("银行", "银<行|HANG2>", "银<行|xing2>")
    )

    assert usual == hang
    assert hang != xing


@pytest.mark.usefixtures("plain")
def test_the_first_segment_is_there_long_before_the_last(real: RunningService) -> None:
    """The first one is short, and can be fetched while others are still to come (R55)."""
    job_id = real.submit(LONG, model=MODEL, lang="en", stream=True)
    real.wait(job_id, states=("running",), timeout_s=60)
    began = time.monotonic()
    with real.client() as client:
        while not (found := client.get(f"/v1/jobs/{job_id}/audio-segments").json()["data"]):
            assert time.monotonic() < began + 60
            time.sleep(0.02)
        result = real.wait(job_id, timeout_s=120)["result"]
        whole = client.get(f"/v1/jobs/{job_id}/audio-segments").json()["data"]

    assert found[0]["duration_ms"] < 4500
    assert found[0]["duration_ms"] < 0.4 * sum(each["duration_ms"] for each in whole)
    assert len(found) < len(whole) == result["segments"] > 2
