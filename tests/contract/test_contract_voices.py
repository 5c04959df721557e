"""GET /v1/voices and the single voice: the list, whose voices are seen, listening, renaming, deleting."""

import hashlib
import json
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code, faults
from servers.voices import JSON, listed, own_voice, recording, upload
from tenuto.features.decoding.wav import read_pcm16_wav

pytestmark = pytest.mark.variant("database", only="postgresql")

MISSING = "voice_01jd4k0a3v6c8e9g2h5m7n0p1q"


def rename(caller: Caller, voice_id: str, body: Any, headers: dict[str, str] = JSON) -> httpx2.Response:
    return caller.request(
        "PATCH", f"/v1/voices/{voice_id}", headers=headers, content=json.dumps(body).encode()
    )


def test_the_list_holds_the_built_in_voices_and_the_own_ones(caller: Caller) -> None:
    """11 official voices, 2 emotion references, the shared one, then the account's own (R158, R161, R162)."""
    own = [own_voice(caller, seed) for seed in (1, 2)]
    page = caller.get("/v1/voices").json()
    kinds = [voice["kind"] for voice in page["data"]]

    assert {"object", "data"} == set(page)
    assert ["shared", *["official"] * 11, *["emotion"] * 2, "own", "own"] == kinds
    assert own == [voice["voice_id"] for voice in page["data"] if voice["kind"] == "own"]
    assert len(kinds) == len({voice["voice_id"] for voice in page["data"]})


def test_a_voice_says_what_it_is(caller: Caller) -> None:
    """Every field of the record; the recording's are those of a download; synthetic ones say so (R172)."""
    for voice in listed(caller):
        answer = caller.get(f"/v1/voices/{voice['voice_id']}/content")
        wav = read_pcm16_wav(answer.content)

        assert voice == caller.get(f"/v1/voices/{voice['voice_id']}").json()
        assert {
            *("voice_id", "object", "name", "kind", "languages", "default_parameters", "profile_version"),
            *("provenance", "audio", "created_at"),
        } == set(voice)
        assert (voice["name"] not in ("Linda", "Edward")) == voice["provenance"]["synthetic"]
        assert {
            "media_type": "audio/wav",
            "size_bytes": len(answer.content),
            "sha256": hashlib.sha256(answer.content).hexdigest(),
            "duration_ms": wav.duration_ms,
            "sample_rate": wav.sample_rate,
            "channels": wav.channels,
        } == voice["audio"]
        assert 1_000 <= wav.duration_ms <= 15_000


def test_pages_follow_the_cursor_to_a_last_one_without(caller: Caller) -> None:
    """`after=<next_cursor>` gives the next page; the last page has no cursor (R159, R160)."""
    own_voice(caller)
    whole = [voice["voice_id"] for voice in listed(caller)]
    found, query, pages = [], "?limit=4", 0
    while query:
        page = caller.get(f"/v1/voices{query}").json()
        found += [voice["voice_id"] for voice in page["data"]]
        query = f"?limit=4&after={page['next_cursor']}" if "next_cursor" in page else ""
        pages += 1

    assert (whole, 4) == (found, pages)
    assert "next_cursor" not in caller.get("/v1/voices?limit=15").json()
    assert [] == caller.get("/v1/voices?after=voice_7zzzzzzzzzzzzzzzzzzzzzzzzz").json()["data"]
    assert [("after", "not_allowed"), ("kind", "unknown_name"), ("limit", "out_of_range")] == faults(
        caller.get("/v1/voices?limit=101&after=job_01jd4k0a3v6c8e9g2h5m7n0p1q&kind=own")
    )


def test_an_own_voice_is_its_accounts_alone(caller: Caller, operator: Operator) -> None:
    """Every key of the account sees it, another account's finds no such id (R50, R173, R204)."""
    voice_id = own_voice(caller)
    second, stranger = operator.key(caller.account_id), operator.caller()

    assert voice_id in [voice["voice_id"] for voice in listed(second)]
    assert voice_id not in [voice["voice_id"] for voice in listed(stranger)]
    assert 200 == second.get(f"/v1/voices/{voice_id}/content").status_code
    assert (404, "not_found") == error_code(stranger.get(f"/v1/voices/{voice_id}"))


def test_voices_stay_when_keys_change(caller: Caller, operator: Operator) -> None:
    """A new key, and the old one revoked: the same ids, and they go on working (R174, R176, R204)."""
    voice_id = own_voice(caller)
    second = operator.key(caller.account_id)
    before = listed(caller)
    operator.revoke(caller)

    assert before == listed(second)
    assert voice_id in {voice["voice_id"] for voice in before}
    assert "succeeded" == second.wait(second.submit(voice_id=voice_id))["state"]


def test_a_recording_is_sent_like_a_result(caller: Caller) -> None:
    """The uploaded bytes, with ETag, in parts or not at all; another recording has another id (R175)."""
    content = recording(7)
    voice_id = upload(caller, content).json()["voice_id"]
    path = f"/v1/voices/{voice_id}/content"
    etag = f'"{hashlib.sha256(content).hexdigest()}"'
    whole = caller.get(path)

    assert (200, content, etag) == (whole.status_code, whole.content, whole.headers["etag"])
    assert ("audio/wav", "bytes") == (whole.headers["content-type"], whole.headers["accept-ranges"])
    part = caller.get(path, {"Range": "bytes=4-7"})
    assert (206, content[4:8]) == (part.status_code, part.content)
    assert 304 == caller.get(path, {"If-None-Match": etag}).status_code
    assert 416 == caller.get(path, {"Range": "bytes=99999999-"}).status_code
    assert voice_id != upload(caller, content).json()["voice_id"]


def test_an_own_voice_is_renamed(caller: Caller) -> None:
    """PATCH takes a name and nothing else; id and recording stay (R175)."""
    voice_id = own_voice(caller)
    before = caller.get(f"/v1/voices/{voice_id}").json()
    answer = rename(caller, voice_id, {"name": "新的名字"})

    assert (200, before | {"name": "新的名字"}) == (answer.status_code, answer.json())
    assert answer.json() == caller.get(f"/v1/voices/{voice_id}").json()
    assert [("kind", "unknown_name"), ("name", "too_long")] == faults(
        rename(caller, voice_id, {"name": "x" * 81, "kind": "official"})
    )
    assert 415 == rename(caller, voice_id, {"name": "x"}, {"Content-Type": "text/plain"}).status_code
    assert answer.json() == caller.get(f"/v1/voices/{voice_id}").json()


def test_an_own_voice_is_deleted(caller: Caller) -> None:
    """It is gone for reads, jobs and preferences; a second time there is nothing to delete (R73)."""
    voice_id = own_voice(caller)
    answer = caller.request("DELETE", f"/v1/voices/{voice_id}")

    assert (200, {"voice_id": voice_id, "object": "voice", "deleted": True}) == (
        answer.status_code,
        answer.json(),
    )
    assert (404, "not_found") == error_code(caller.request("DELETE", f"/v1/voices/{voice_id}"))
    assert (404, "not_found") == error_code(caller.get(f"/v1/voices/{voice_id}/content"))
    assert voice_id not in [voice["voice_id"] for voice in listed(caller)]


def test_voices_cost_nothing(operator: Operator) -> None:
    """Uploading, querying and saving move no money, also without any credit (R179, R185)."""
    caller = operator.caller()
    voice_id = own_voice(caller)
    caller.get("/v1/voices")
    caller.get(f"/v1/voices/{voice_id}/content")
    body = json.dumps({"voice_id": voice_id}).encode()

    assert 200 == caller.request("PUT", "/v1/voice-preference", headers=JSON, content=body).status_code
    assert (0, 0) == operator.money(caller)
    assert (
        0 == operator.row("select count(*) as n from entry where account_id = :id", id=caller.account_id)["n"]
    )
