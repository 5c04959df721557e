"""The top level of a job's body."""

from typing import Any

import pytest

from tenuto.errors import InvalidRequest
from tenuto.kind import envelope
from tenuto.kind.envelope import Envelope

SOUND: dict[str, Any] = {"model": "m", "parameters": {}}


def faults(body: Any) -> list[tuple[str, str]]:
    return [(fault.param, fault.code) for fault in envelope.check(body)[1]]


def read(body: Any) -> Envelope:
    parsed, found = envelope.check(body)
    assert parsed is not None
    assert found == []
    return parsed


def test_the_least() -> None:
    """A model and parameters are enough; inputs that are left out are None, not an empty list."""
    parsed = read({"model": "m", "parameters": {"a": [None]}})

    assert Envelope(model="m", parameters={"a": [None]}, input_artifact_ids=None, metadata={}) == parsed


def test_everything() -> None:
    """Inputs and metadata are kept as they were sent."""
    body = SOUND | {"input_artifact_ids": [], "metadata": {"": "", "订单": " 7 "}}

    assert Envelope(
        model="m", parameters={}, input_artifact_ids=[], metadata={"": "", "订单": " 7 "}
    ) == read(body)
    assert ["a", "b"] == read(SOUND | {"input_artifact_ids": ["a", "b"]}).input_artifact_ids


@pytest.mark.parametrize("body", [None, [], "x", 1, True])
def test_body_must_be_an_object(body: Any) -> None:
    """A body of another type is refused as a whole."""
    assert [("body", "wrong_type")] == faults(body)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model": "好" * 200}, []),
        ({"model": "m" * 201}, [("model", "too_long")]),
        ({"model": ""}, [("model", "empty")]),
        ({"model": None}, [("model", "wrong_type")]),
        ({"model": ["m"]}, [("model", "wrong_type")]),
        ({"parameters": None}, [("parameters", "wrong_type")]),
        ({"parameters": []}, [("parameters", "wrong_type")]),
        ({"parameters": "{}"}, [("parameters", "wrong_type")]),
        ({"input_artifact_ids": None}, [("input_artifact_ids", "wrong_type")]),
        ({"input_artifact_ids": "a"}, [("input_artifact_ids", "wrong_type")]),
        ({"input_artifact_ids": {}}, [("input_artifact_ids", "wrong_type")]),
        (
            {"input_artifact_ids": ["a", 1, "", "b" * 101, None]},
            [
                ("input_artifact_ids[1]", "wrong_type"),
                ("input_artifact_ids[2]", "empty"),
                ("input_artifact_ids[3]", "too_long"),
                ("input_artifact_ids[4]", "wrong_type"),
            ],
        ),
        ({"metadata": None}, [("metadata", "wrong_type")]),
        ({"metadata": []}, [("metadata", "wrong_type")]),
        ({"metadata": {"a": 1, "b": None}}, [("metadata.a", "wrong_type"), ("metadata.b", "wrong_type")]),
        ({"metadata": {str(index): "" for index in range(15)}}, []),
        ({"metadata": {str(index): "" for index in range(16)}}, []),
        ({"metadata": {str(index): "" for index in range(17)}}, [("metadata", "too_long")]),
        ({"metadata": {"名" * 64: "x" * 511}}, []),
        ({"metadata": {"名" * 64: "值" * 512}}, []),
        ({"metadata": {"n" * 65: ""}}, [("metadata." + "n" * 40 + "…", "too_long")]),
        ({"metadata": {"n": "x" * 513}}, [("metadata.n", "too_long")]),
        ({"metdata": {}}, [("metdata", "unknown_name")]),
        ({"idempotency_key": "x"}, [("idempotency_key", "unknown_name")]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_fields(change: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Every field of the top level has its type and its limits, and no other field is known."""
    assert expected == faults(SOUND | change)


def test_all_faults_at_once() -> None:
    """All faults are told in one answer."""
    body = {"modle": "m", "parameters": 1, "input_artifact_ids": [1], "metadata": {"a": 1}}
    refused = InvalidRequest(envelope.check(body)[1])

    params = ["parameters", "input_artifact_ids[0]", "metadata.a", "model", "modle"]
    assert params == [fault.param for fault in refused.faults]
    assert "modle: is not known; did you mean model?" in refused.message


def test_readable_in_spite_of_faults() -> None:
    """While model and parameters can be read, they come with the faults: both levels are told."""
    readable, found = envelope.check(SOUND | {"metadata": 1})
    unreadable, _ = envelope.check({"model": "m"})

    assert Envelope(model="m", parameters={}) == readable
    assert ["metadata"] == [fault.param for fault in found]
    assert unreadable is None


def test_floods_make_short_answers() -> None:
    """A list or object full of faults is not told item by item."""
    ids = faults(SOUND | {"input_artifact_ids": [1] * 100_000})
    pairs = faults(SOUND | {"metadata": {str(index): 1 for index in range(100_000)}})

    assert ("input_artifact_ids", "too_many_faults") == ids[-1]
    assert (17, 17) == (len(ids), len(pairs))
