"""PUT and GET /v1/voice-preference: one voice per content account, only for the studio."""

import json
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code, faults
from servers.voices import JSON, own_voice, voice_of_kind

pytestmark = pytest.mark.variant("database", only="postgresql")

UNKNOWN = "voice_01jd4k0a3v6c8e9g2h5m7n0p1q"


def save(caller: Caller, body: Any, headers: dict[str, str] = JSON) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return caller.request("PUT", "/v1/voice-preference", headers=headers, content=content)


def saved(caller: Caller) -> Any:
    return caller.get("/v1/voice-preference").json()


def test_a_choice_is_saved_for_each_content_account(caller: Caller) -> None:
    """The answer is the saved choice; a later one takes its place; the list has all (R180, R182, R183)."""
    own, official = own_voice(caller), voice_of_kind(caller, "official")["voice_id"]
    first = save(caller, {"content_account": "频道", "voice_id": own})

    told = (first.status_code, first.json()["content_account"], first.json()["voice_id"])
    assert (200, "频道", own) == told
    assert isinstance(first.json()["updated_at"], int)
    save(caller, {"content_account": "second", "voice_id": own})
    last = save(caller, {"content_account": "频道", "voice_id": official}).json()
    assert [("second", own), ("频道", official)] == [
        (choice["content_account"], choice["voice_id"]) for choice in saved(caller)["data"]
    ]
    assert last in saved(caller)["data"]
    assert saved(caller)["default"] is None


def test_without_a_content_account_it_is_the_default(caller: Caller) -> None:
    """Left out or empty: the general default, apart from the list (R181, R182)."""
    own, shared = own_voice(caller), voice_of_kind(caller, "shared")["voice_id"]
    assert {"object": "list", "data": [], "default": None} == saved(caller)
    save(caller, {"voice_id": own})

    assert own == saved(caller)["default"]["voice_id"]
    answer = save(caller, {"content_account": "", "voice_id": shared})
    assert ("", shared) == (answer.json()["content_account"], answer.json()["voice_id"])
    assert ([], answer.json()) == (saved(caller)["data"], saved(caller)["default"])


def test_choices_are_an_accounts_own(caller: Caller, operator: Operator) -> None:
    """Other accounts do not see them, other keys of the account do (R183, R204)."""
    save(caller, {"voice_id": own_voice(caller)})

    assert saved(caller) == saved(operator.key(caller.account_id))
    assert {"object": "list", "data": [], "default": None} == saved(operator.caller())


def test_a_foreign_voice_and_an_emotion_cannot_be_chosen(caller: Caller, operator: Operator) -> None:
    """A foreign voice does not exist; an emotion reference cannot speak (R173, R180)."""
    foreign, emotion = own_voice(operator.caller()), voice_of_kind(caller, "emotion")["voice_id"]

    assert [("voice_id", "unknown_voice")] == faults(save(caller, {"voice_id": foreign}))
    assert [("voice_id", "not_allowed")] == faults(save(caller, {"voice_id": emotion}))
    assert {"object": "list", "data": [], "default": None} == saved(caller)


def test_wrong_bodies_are_refused(caller: Caller) -> None:
    """All faults at once, in strict JSON of at most 64 KiB (R180)."""
    wrong: list[tuple[Any, list[tuple[str, str]]]] = [
        (b"[]", [("body", "wrong_type")]),
        (b'{"voice_id": "x", "voice_id": "y"}', [("voice_id", "duplicate_name")]),
        (
            {"voice_id": 1, "content_account": 2},
            [("content_account", "wrong_type"), ("voice_id", "wrong_type")],
        ),
        (
            {"content_account": "x" * 201, "extra": 1},
            [("content_account", "too_long"), ("extra", "unknown_name"), ("voice_id", "required")],
        ),
        ({"voice_id": UNKNOWN}, [("voice_id", "unknown_voice")]),
    ]
    for value, expected in wrong:
        assert expected == faults(save(caller, value))
    body = json.dumps({"voice_id": "x", "content_account": "x" * 65_536}).encode()

    assert (413, "payload_too_large") == error_code(save(caller, body))
    assert (415, "unsupported_media_type") == error_code(save(caller, body, {"Content-Type": "text/plain"}))


def test_jobs_never_look_at_it(caller: Caller, operator: Operator) -> None:
    """A text alone is spoken by the server's own voice, whatever was preferred (R106, R184, R220)."""
    before = operator.parameters(caller.submit("Hold."))
    shared = voice_of_kind(caller, "shared")["voice_id"]
    save(caller, {"voice_id": shared})
    operation = caller.wait(caller.submit("Hold."))

    assert before == operator.parameters(operation["id"])
    assert before["voice"] is None
    assert "voice_profile_version" not in operation["result"]
