"""GET /v1/models: the fields of an entry."""

from servers.callers import METERED, SPEECH, Caller, Operator
from tenuto.host.registry import entries


def test_the_catalog_lists_the_models(caller: Caller) -> None:
    """The list is OpenAI's shape, every entry with its interface and `callable` (R186, R188–R190)."""
    answer = caller.get("/v1/models")
    listed = answer.json()

    assert (200, "list") == (answer.status_code, listed["object"])
    speaking = [entry for entry in listed["data"] if entry["kind"] == "speech"]
    assert [SPEECH, METERED] == [entry["id"] for entry in speaking]
    for entry in speaking:
        assert ("model", "jobs", "speech", True, None) == tuple(
            entry[name] for name in ("object", "interface", "kind", "callable", "callable_reason")
        )
        assert ["zh", "en", "ja", "es", "ar"] == entry["languages"]
        assert {"text_bytes": 8192} == entry["limits"]
        assert [{"model_id": entry["id"], "model_revision": "1"}] == entry["engines"]
        assert "text" in entry["honoured_parameters"]
        assert [] == entry["notes"]


def test_the_catalog_tells_prices(operator: Operator, paid: Operator) -> None:
    """Price and hold of a job are given in CNY with six decimal places; synthesis is free by default
    (R215)."""
    pricing = [
        entry["pricing"]
        for owner in (operator, paid)
        for entry in owner.caller().get("/v1/models").json()["data"]
        if entry["kind"] == "speech"
    ]
    expected = [
        ("0.000000", "0.000000"),
        ("0.000000", "0.000000"),
        ("0.050000", "0.050000"),
        ("0.080000", "0.100000"),
    ]

    assert [
        {"currency": "CNY", "unit": "job", "price": price, "hold": hold} for price, hold in expected
    ] == pricing


def test_a_small_model_says_what_it_is_weak_at() -> None:
    """Every real model has notes; the dual one says that its engines share their weights."""
    notes = {entry.model: " ".join(entry.notes) for entry in entries(fake=False)}

    assert [] == [model for model, text in notes.items() if not text]
    assert "same weights" in notes["tenuto/dual-recognition"]
