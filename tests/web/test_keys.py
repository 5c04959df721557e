"""An account's keys: made by itself, shown once, restricted, expiring, revoked; and nobody else's."""

import pytest

from tenuto.accounts import operations as accounts
from tenuto.errors import OperatorError
from tenuto.web import keys
from web.browsers import HOUR_MS, START_MS, Studio, error, faults

NOW_S = START_MS // 1000
OTHER_KEY = "key_" + "0" * 26


def test_a_key_is_made_without_anybody_and_shown_once(studio: Studio) -> None:
    """The answer has the whole key, which works at once; the list has its ends (R201, R205)."""
    browser = studio.person("me")
    made = browser.post("/web/keys", {"name": "laptop"})
    key = made.json().pop("key")
    listed = browser.get("/web/keys")

    assert 201 == made.status_code
    assert 200 == studio.browser().get("/v1/models", Authorization=f"Bearer {key}").status_code
    assert [made.json() | {"last_used_at": NOW_S}] == [
        line | {"key": key} for line in browser.get("/web/keys").json()["data"]
    ]
    assert (key[:7], key[-4:]) == (made.json()["prefix"], made.json()["last_four"])
    assert key not in listed.text
    assert "no-store" == made.headers["cache-control"]


def test_a_key_can_be_restricted_and_end(studio: Studio) -> None:
    """It sees its models alone (R202), and nothing any more from its last second on."""
    browser = studio.person("me")
    asked = {"name": "narrow", "models": ["fake/speech"], "expires_at": NOW_S + 3600}
    made = browser.post("/web/keys", asked).json()
    head = {"Authorization": f"Bearer {made['key']}"}
    models = [model["id"] for model in studio.browser().get("/v1/models", **head).json()["data"]]
    studio.pass_time(HOUR_MS)
    late = studio.browser().get("/v1/models", **head)

    assert ["fake/speech"] == models
    assert (["fake/speech"], NOW_S + 3600) == (made["models"], made["expires_at"])
    assert (401, "invalid_api_key") == error(late)


def test_a_key_that_cannot_be_is_refused(studio: Studio) -> None:
    """Every fault is named, and nothing is stored."""
    browser = studio.person("me")
    cases: list[tuple[object, list[tuple[str, str]]]] = [
        ({}, [("name", "required")]),
        ({"name": ""}, [("name", "empty")]),
        ({"name": " x"}, [("name", "invalid_name")]),
        ({"name": "x" * 81}, [("name", "too_long")]),
        ({"name": "x", "models": "fake/speech"}, [("models", "wrong_type")]),
        ({"name": "x", "models": [1, ""]}, [("models[0]", "wrong_type"), ("models[1]", "wrong_type")]),
        (
            {"name": "x", "models": ["nope"], "expires_at": NOW_S},
            [("models[0]", "unknown_model"), ("expires_at", "out_of_range")],
        ),
        ({"name": "x", "expires_at": 1.5}, [("expires_at", "wrong_type")]),
        ({"name": "x", "expires_at": 10**12}, [("expires_at", "out_of_range")]),
        ({"name": "x", "account_id": "account_1"}, [("account_id", "unknown_name")]),
        (["name"], [("body", "wrong_type")]),
    ]

    assert [wrong for _, wrong in cases] == [faults(browser.post("/web/keys", asked)) for asked, _ in cases]
    assert [] == browser.get("/web/keys").json()["data"]


def test_a_revoked_key_is_refused_from_the_next_request_on(studio: Studio) -> None:
    """Again is no error; the list says since when."""
    browser = studio.person("me")
    made = browser.post("/web/keys", {"name": "lost"}).json()
    answers = [browser.request("DELETE", f"/web/keys/{made['id']}") for _ in range(2)]
    refused = studio.browser().get("/v1/models", Authorization=f"Bearer {made['key']}")

    assert [204, 204] == [answer.status_code for answer in answers]
    assert (401, "invalid_api_key") == error(refused)
    assert [NOW_S] == [line["revoked_at"] for line in browser.get("/web/keys").json()["data"]]


def test_nobody_sees_or_revokes_another_accounts_key(studio: Studio) -> None:
    """A foreign id is answered like one that is none (P12)."""
    mine, theirs = studio.person("me"), studio.person("they")
    key = theirs.post("/web/keys", {"name": "theirs"}).json()
    studio_key = studio.row("select key_id from login limit 1")["key_id"]
    tried = [key["id"], OTHER_KEY, studio_key, "key_x", "job_" + "0" * 26]
    told = {
        (error(answer), answer.json()["error"]["message"])
        for answer in [mine.request("DELETE", f"/web/keys/{key_id}") for key_id in tried]
    }

    assert {((404, "not_found"), "There is nothing under this id.")} == told
    assert [] == mine.get("/web/keys").json()["data"]
    assert [None] == [line["revoked_at"] for line in theirs.get("/web/keys").json()["data"]]


def test_an_account_has_only_so_many_keys_that_work(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then one has to be revoked first (P14)."""
    monkeypatch.setattr(keys, "MAX_LIVE_KEYS", 2)
    browser = studio.person("me")
    first = browser.post("/web/keys", {"name": "a"}).json()
    statuses = [browser.post("/web/keys", {"name": name}).status_code for name in "bc"]
    browser.request("DELETE", f"/web/keys/{first['id']}")

    assert [201, 429] == statuses
    assert 201 == browser.post("/web/keys", {"name": "c"}).status_code


def test_the_studios_own_calls_are_bound_to_a_key_that_nobody_can_send(studio: Studio) -> None:
    """A repeated submission is the same job, also after signing in anew; a real key's are its own (R19, R22).

    That key is not listed, has no secret and is given none.
    """
    studio.open_lane()
    browser = studio.person("me")
    key = browser.post("/web/keys", {"name": "laptop"}).json()["key"]
    first = browser.submit(key="one")
    browser.log_in("me")
    again = browser.submit(key="one")
    asked = {"model": "fake/speech", "parameters": {"text": "Hold the note."}}
    head = {"Idempotency-Key": "one", "Authorization": f"Bearer {key}"}
    by_key = studio.browser().post("/v1/jobs", asked, **head).json()["id"]
    own = studio.row("select key_id from login")["key_id"]

    assert first == again != by_key
    assert {first, by_key} == {job["id"] for job in browser.get("/web/v1/jobs").json()["data"]}
    assert ["laptop"] == [line["name"] for line in browser.get("/web/keys").json()["data"]]
    with pytest.raises(OperatorError, match="no key"):
        studio.database.write(lambda tx: accounts.rotate_key(tx, own, grace_ms=0, now_ms=studio.now_ms))
