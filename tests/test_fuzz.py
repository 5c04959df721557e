"""A bounded run of every fuzzing target; `python -m lab.fuzz --minutes 60` is the long one."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.fuzz.grow import grown
from lab.fuzz.targets import CORPORA, TARGETS, seeds

GROWN = 2_000
ANY = 60


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_grown_from_a_corpus_fails_in_no_other_way(name: str) -> None:
    """Each seed as it is, and two thousand that are changed: accepted or refused, and nothing else (P14)."""
    target, draw = TARGETS[name][0], random.Random(name)
    for content in seeds(name):
        target(content)
    for _ in range(GROWN):
        target(grown(draw, seeds(name)))

    assert len(seeds(name)) > (name not in ("flac-digest",))


@pytest.mark.parametrize("name", TARGETS)
@settings(
    max_examples=ANY, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(content=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_fail_in_no_other_way(name: str, content: bytes) -> None:
    """Bytes and texts that hypothesis thinks of; what it finds it makes small (P14)."""
    target = TARGETS[name][0]

    assert target(content) is None


def test_the_targets_cover_the_corpora() -> None:
    """A corpus that is added is one that something is grown from."""
    grown_from = {kind for _, kinds in TARGETS.values() for kind in kinds}

    assert {path.name for path in CORPORA.iterdir() if path.is_dir()} <= grown_from
