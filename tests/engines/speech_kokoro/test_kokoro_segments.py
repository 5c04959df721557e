"""Grouping units into segments: nothing is lost, nothing is divided, and no segment is too long."""

from hypothesis import given
from hypothesis import strategies as st

from tenuto_kokoro.cutting import Ending, Segment, Unit, is_voiced, segments, shared

CAP = 200
FIRST, SOONEST = 60, 15
UNITS = st.lists(
    st.builds(
        Unit,
        text=st.text("ab界 ", min_size=1, max_size=4),
        phonemes=st.text("aɕ→, .", max_size=30),
        ending=st.sampled_from(Ending),
    ),
    max_size=60,
)
WORDS = st.lists(
    st.builds(
        Unit,
        text=st.just("a "),
        phonemes=st.text("aɕ→", max_size=17).map(lambda word: f"a{word} "),
        ending=st.sampled_from(Ending),
    ),
    max_size=60,
)


@given(UNITS, st.integers(20, 200))
def test_segments_hold_the_whole_text_in_order(units: list[Unit], limit: int) -> None:
    found = segments(units, limit, CAP, first=FIRST, soonest=SOONEST)

    assert not found or "".join(unit.text for unit in units) == "".join(segment.text for segment in found)


@given(UNITS, st.integers(20, 200))
def test_no_segment_is_longer_than_the_limit_unless_it_is_one_word(units: list[Unit], limit: int) -> None:
    numbered = [Unit(f"{index};", unit.phonemes, unit.ending) for index, unit in enumerate(units)]
    for segment in segments(numbered, limit, CAP, first=FIRST, soonest=SOONEST):
        members = [units[int(index)] for index in segment.text.split(";")[:-1]]

        assert len(segment.phonemes) <= limit or 1 == sum(is_voiced(unit.phonemes) for unit in members)


def test_a_sentence_end_is_preferred_to_a_clause_and_a_clause_to_a_word() -> None:
    units = [
        Unit("One. ", "aaaa. ", Ending.SENTENCE),
        Unit("two, ", "bbbb, ", Ending.CLAUSE),
        Unit("three ", "cccc "),
        Unit("four, ", "dddd, ", Ending.CLAUSE),
        Unit("five ", "eeee "),
        Unit("six", "ffff"),
    ]

    assert ["One. ", "two, three four, ", "five six"] == [
        segment.text for segment in segments(units, 20, CAP, first=FIRST, soonest=SOONEST)
    ]


def test_a_word_longer_than_the_limit_stands_alone_and_is_cut_at_the_cap() -> None:
    units = [Unit("a ", "a "), Unit("x" * 300, "x" * 300), Unit(" b", " b")]
    found = segments(units, 20, CAP, first=FIRST, soonest=SOONEST)

    assert ["a", "x" * CAP, "x" * 100, "b"] == [segment.phonemes for segment in found]
    assert ["a ", "x" * 300, "", " b"] == [segment.text for segment in found]


@given(st.integers(0, 60), st.integers(1, 20))
def test_what_is_more_than_may_be_shown_is_joined_to_its_neighbours(count: int, most: int) -> None:
    """All segments in their order, in as many groups as may be, none much longer than another (R62)."""
    pieces = [Segment(str(index), "a") for index in range(count)]
    groups = shared(pieces, most)

    assert pieces == [piece for group in groups for piece in group]
    assert min(count, most) == len(groups)
    assert {len(group) for group in groups} <= {
        count // max(1, len(groups)),
        -(-count // max(1, len(groups))),
    }


@given(WORDS, st.integers(20, 200), st.integers(20, 100))
def test_a_text_of_several_segments_begins_with_a_short_one(
    words: list[Unit], limit: int, first: int
) -> None:
    """What is heard first is made first; those after it are made while all before them are heard, unless no
    clause ends so soon (R55)."""
    made = segments(words, limit, CAP, first=first, soonest=SOONEST)
    found = [len(segment.phonemes) for segment in made]
    is_several = len(found) > 1

    assert not is_several or found[0] <= min(first, limit)
    assert all(
        after <= min(limit, max(first, sum(found[: at + 1]) + max(found[0], SOONEST)))
        for at, after in enumerate(found[1:])
    )


def test_the_first_segment_ends_with_the_first_clause_that_is_long_enough() -> None:
    units = [Unit(f"{index}. ", "aaaaaaaaaaaaaaaa. ", Ending.SENTENCE) for index in range(14)]
    lengths = {
        soonest: [len(each.phonemes) for each in segments(units, 110, CAP, first=50, soonest=soonest)]
        for soonest in (15, 20)
    }

    assert {15: [17, 17, 35, 71, 107], 20: [35, 53, 107, 53]} == lengths
