"""Ids: their form, and that one process's ids rise whatever its clock does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.world import at_once
from tenuto.ids import ALPHABET, Ids, encode, is_id

KINDS = ("job", "artifact", "attempt", "segment", "voice", "account", "key", "blob", "req", "entry", "worker")


def test_the_form_of_an_id() -> None:
    """The kind, an underscore, 26 characters of Crockford's base32 in lower case."""
    ids = Ids(lambda: 1_800_000_000_000)

    for kind in KINDS:
        made = ids.new(kind)
        assert is_id(made, kind)
        assert len(kind) + 27 == len(made)
        assert {*made.removeprefix(f"{kind}_")} <= {*ALPHABET}


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "job", "job_", "key_" + "0" * 26, "job_" + "0" * 25, "job_" + "0" * 27, "job_8" + "0" * 25),
        *("job_" + "U" * 26, "job_" + "0" * 25 + "i", "job_" + "0" * 25 + "\n", "JOB_" + "0" * 26),
        *("job_" + "é" * 26, "jobs_" + "0" * 26, " job_" + "0" * 26, "job_" + "٠" * 26),
    ],
)
def test_what_is_no_id(wrong: str) -> None:
    """Another kind, another length, another alphabet, a number beyond 128 bits."""
    assert not is_id(wrong, "job")


@given(st.lists(st.integers(0, 2**128 - 1), min_size=2, max_size=20))
def test_text_sorts_like_numbers(numbers: list[int]) -> None:
    """So that ids order as their times do."""
    assert [encode(number) for number in sorted(numbers)] == sorted(encode(number) for number in numbers)


@given(st.lists(st.integers(-10_000, 10_000), min_size=2, max_size=50))
def test_ids_rise_whatever_the_clock_does(steps: list[int]) -> None:
    """Within a millisecond, and when the clock goes back: order of ids is order of making."""
    now = [1_800_000_000_000]
    ids = Ids(lambda: now[0])
    made = []
    for step in steps:
        now[0] += step
        made.append(ids.new("job"))

    assert made == sorted(set(made))


def test_the_time_stands_in_front() -> None:
    """An id of a later millisecond is greater, of another process too."""
    earlier = Ids(lambda: 1_800_000_000_000, lambda bits: 2**bits - 1).new("job")
    later = Ids(lambda: 1_800_000_000_001, lambda bits: 0).new("job")

    assert earlier < later


def test_randomness_is_asked_for_eighty_bits() -> None:
    """Two processes of one millisecond don't meet."""
    asked: list[int] = []

    def random_bits(bits: int) -> int:
        asked.append(bits)
        return 1

    first, second = (Ids(lambda: 7, random_bits).new("job") for _ in range(2))

    assert (first, [80, 80]) == (second, asked)
    assert Ids(lambda: 7).new("job") != Ids(lambda: 7).new("job")


def test_threads_get_different_ids() -> None:
    """And each thread's own rise."""
    ids = Ids(lambda: 1)
    answers = at_once(8, lambda _: [ids.new("job") for _ in range(500)])

    made = [answer for answer in answers if isinstance(answer, list)]
    assert 8 * 500 == len({each for answer in made for each in answer})
    assert all(answer == sorted(answer) for answer in made)
