"""An account's keys: made by itself, shown once, restricted, expiring, revoked; and nobody else's."""

from typing import Any

import pytest

from features.studio.browsers import HOUR_MS, START_MS, Studio, error, faults
from servers.lost_answer import LostAnswer
from tenuto.account import operations as accounts
from tenuto.errors import OperatorError
from tenuto.features.studio import api_keys

pytestmark = pytest.mark.variant("database", only="postgresql")

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
        ({"name": "x", "models": []}, [("models", "empty")]),
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


def test_a_key_gets_another_secret_and_the_old_one_ends_later(studio: Studio) -> None:
    """Under the same id; the old secret works until its grace is over, at once if there is none (R201)."""
    browser = studio.person("me")
    made = browser.post("/web/keys", {"name": "laptop", "models": ["fake/speech"]}).json()
    path = f"/web/keys/{made['id']}/rotation"

    def works(key: str) -> bool:
        return 200 == studio.browser().get("/v1/models", Authorization=f"Bearer {key}").status_code

    second = browser.post(path, {"grace_hours": 1}).json()
    during = [works(each["key"]) for each in (made, second)]
    studio.pass_time(HOUR_MS)
    after = [works(each["key"]) for each in (made, second)]
    third = browser.post(path, {"grace_hours": 0}).json()
    [line] = browser.get("/web/keys").json()["data"]

    assert ([True, True], [False, True]) == (during, after)
    assert [False, True] == [works(each["key"]) for each in (second, third)]
    assert (made["id"], ["fake/speech"]) == (third["id"], third["models"])
    assert third["key"][-4:] == line["last_four"]


def test_only_a_working_key_of_ones_own_gets_another_secret(studio: Studio) -> None:
    """And only so many work at once: rows of secrets stay until they have ended."""
    browser, other = studio.person("me"), studio.person("other")
    made = browser.post("/web/keys", {"name": "k"}).json()
    path = f"/web/keys/{made['id']}/rotation"
    not_mine = [other.post(path, {}), browser.post(f"/web/keys/{OTHER_KEY}/rotation", {})]
    wrong = faults(browser.post(path, {"grace_hours": 169}))
    many = [browser.post(path, {"grace_hours": 1}) for _ in range(api_keys.MAX_SECRETS)]
    studio.pass_time(HOUR_MS)
    later = browser.post(path, {}).status_code
    browser.request("DELETE", f"/web/keys/{made['id']}")
    revoked = browser.post(path, {})

    assert [(404, "not_found")] * 2 == [error(answer) for answer in not_mine]
    assert [("grace_hours", "out_of_range")] == wrong
    assert [201] * (api_keys.MAX_SECRETS - 1) + [429] == [answer.status_code for answer in many]
    assert (201, 400) == (later, revoked.status_code)


def test_a_revoked_key_is_refused_from_the_next_request_on(studio: Studio) -> None:
    """Again is no error; the list says since when."""
    browser = studio.person("me")
    made = browser.post("/web/keys", {"name": "lost"}).json()
    answers = [browser.request("DELETE", f"/web/keys/{made['id']}") for _ in range(2)]
    refused = studio.browser().get("/v1/models", Authorization=f"Bearer {made['key']}")

    assert [204, 204] == [answer.status_code for answer in answers]
    assert (401, "invalid_api_key") == error(refused)
    assert [NOW_S] == [line["revoked_at"] for line in browser.get("/web/keys").json()["data"]]


def test_an_account_has_only_so_many_keys_that_work(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then one has to be revoked first (P14)."""
    monkeypatch.setattr(api_keys, "MAX_LIVE_KEYS", 2)
    browser = studio.person("me")
    first = browser.post("/web/keys", {"name": "a"}).json()
    statuses = [browser.post("/web/keys", {"name": name}).status_code for name in "bc"]
    browser.request("DELETE", f"/web/keys/{first['id']}")

    assert [201, 429] == statuses
    assert 201 == browser.post("/web/keys", {"name": "c"}).status_code


def test_the_last_key_that_an_account_may_have_is_made_although_its_answer_is_lost(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT is done and its answer lost: the key is not counted against itself, and it works."""
    monkeypatch.setattr(api_keys, "MAX_LIVE_KEYS", 1)
    browser = studio.person("me")
    lost: Any = LostAnswer(studio.database)
    studio.service.database = lost
    made = browser.post("/web/keys", {"name": "last"})
    listed = browser.get("/web/keys").json()["data"]

    assert 2 == lost.writes
    assert 201 == made.status_code
    assert [made.json()["id"]] == [line["id"] for line in listed]
    key = made.json()["key"]
    assert 200 == studio.browser().get("/v1/models", Authorization=f"Bearer {key}").status_code


def test_the_last_secret_that_a_key_may_have_is_added_although_its_answer_is_lost(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT is done and its answer lost: the key has the old secret and that of the answer, and no third."""
    monkeypatch.setattr(api_keys, "MAX_SECRETS", 2)
    browser = studio.person("me")
    made = browser.post("/web/keys", {"name": "k"}).json()
    lost: Any = LostAnswer(studio.database)
    studio.service.database = lost
    rotated = browser.post(f"/web/keys/{made['id']}/rotation", {"grace_hours": 1})
    counted = studio.row("select count(*) as n from api_key_secret where key_id = :id", id=made["id"])

    assert 2 == lost.writes
    assert 201 == rotated.status_code
    assert 2 == counted["n"]
    key = rotated.json()["key"]
    assert 200 == studio.browser().get("/v1/models", Authorization=f"Bearer {key}").status_code


def test_keys_are_not_made_without_end(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of revoked keys stay: so many are made within an hour, and no more (P14)."""
    monkeypatch.setattr(api_keys, "MAX_NEW_KEYS", 3)
    browser, other = studio.person("me"), studio.person("they")
    statuses = []
    for number in range(4):
        answer = browser.post("/web/keys", {"name": f"key {number}"})
        statuses.append(answer.status_code)
        if answer.status_code == 201:
            browser.request("DELETE", f"/web/keys/{answer.json()['id']}")
    others = other.post("/web/keys", {"name": "mine"}).status_code
    studio.now_ms += 3_600_000
    later = browser.post("/web/keys", {"name": "later"}).status_code

    assert ([201, 201, 201, 429], 201, 201) == (statuses, others, later)


def test_the_studios_own_calls_are_bound_to_a_key_that_nobody_can_send(studio: Studio) -> None:
    """A repeated submission is the same job, also after signing in anew (R19, R22)."""
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
    assert (404, "not_found") == error(browser.request("DELETE", f"/web/keys/{own}"))
    with pytest.raises(OperatorError, match="no key"):
        studio.database.write(lambda tx: accounts.rotate_key(tx, own, grace_ms=0, now_ms=studio.now_ms))


@pytest.mark.parametrize("damage", ['["fake/spe', '{"fake/speech": 1}', "[1]", "null"])
def test_a_damaged_restriction_breaks_no_list_and_allows_nothing(studio: Studio, damage: str) -> None:
    """Its key is shown as damaged and refused, never taken for unrestricted; the other works (R202)."""
    browser = studio.person("me")
    whole, broken = (
        browser.post("/web/keys", {"name": name, "models": ["fake/speech"]}).json()
        for name in ("whole", "broken")
    )
    studio.world.run("update api_key set models = :models where id = :id", models=damage, id=broken["id"])
    answers = [
        studio.browser().get("/v1/models", Authorization=f"Bearer {made['key']}") for made in (whole, broken)
    ]
    listed = browser.get("/web/keys").json()["data"]

    assert [200, 401] == [answer.status_code for answer in answers]
    assert [("broken", [], True), ("whole", ["fake/speech"], False)] == [
        (line["name"], line["models"], line["damaged"]) for line in listed
    ]


def test_a_damaged_restriction_of_an_account_allows_nothing(studio: Studio) -> None:
    """Every list is there, the account's keys are refused, and the operator can restrict it again (R202)."""
    operator, browser = studio.operator(), studio.person("me")
    key = browser.post("/web/keys", {"name": "mine"}).json()["key"]
    account_id, head = browser.account_id(), {"Authorization": f"Bearer {key}"}
    studio.world.run("update account set models = '[oops' where id = :id", id=account_id)
    refused = studio.browser().get("/v1/models", **head)
    signed_in = browser.get("/web/keys")
    listed = operator.get("/web/operator/accounts").json()["data"]
    operator.post(f"/web/operator/accounts/{account_id}/models", {"models": ["fake/speech"]})
    mended = studio.browser().get("/v1/models", **head)

    assert (401, 200, 200) == (refused.status_code, signed_in.status_code, mended.status_code)
    assert [(False, None), (True, [])] == [(line["damaged"], line["models"]) for line in listed]
    assert ["fake/speech"] == [model["id"] for model in mended.json()["data"]]
