"""The operator's pages: accounts and credit, the service at a glance, the inbox of jobs that wait."""

import os

import pytest

from features.studio.browsers import Browser, Studio, error, faults
from features.studio.conftest import Open
from servers.world import METERED, SPEECH
from tenuto import logs
from tenuto.job.finish import RecordedResult

pytestmark = pytest.mark.variant("database", only="postgresql")

NOBODY = "account_" + "0" * 26


def test_accounts_are_listed_page_by_page(studio: Studio) -> None:
    """Oldest first, with money and who signs in; names stay what they are."""
    operator = studio.operator("chief")
    names = ["<script>alert(1)</script>", "乙", "='c"]
    made = [operator.post("/web/operator/accounts", {"name": name}).json() for name in names]
    studio.person("self-made")
    first = operator.get("/web/operator/accounts?limit=2").json()
    second = operator.get(f"/web/operator/accounts?limit=500&after={first['next_cursor']}").json()
    shown = [*first["data"], *second["data"]]

    assert ["chief", *names, "self-made"] == [line["name"] for line in shown]
    assert [True, False, False, False, True] == [line["signs_in"] for line in shown]
    assert [False, True, True, True, False] == [line["invited"] for line in shown]
    assert [line["id"] for line in made] == [line["id"] for line in shown[1:4]]
    assert "next_cursor" not in second
    assert [("limit", "out_of_range")] == faults(operator.get("/web/operator/accounts?limit=501"))


def test_accounts_are_found_by_name_id_and_state(studio: Studio) -> None:
    """A part of the name in any case and width; signs of patterns are themselves; pages go on within it."""
    operator = studio.operator("chief")
    names = ["100% Ünïcode", "100 percent", "a_b", "axb", "!bang", "ＷＩＤＥ"]
    made = {name: operator.post("/web/operator/accounts", {"name": name}).json()["id"] for name in names}
    operator.post(f"/web/operator/accounts/{made['axb']}/suspend")
    studio.person("self-made")

    def found(**filters: str) -> list[str]:
        answer = operator.request("GET", "/web/operator/accounts", params=filters)
        return [line["name"] for line in answer.json()["data"]]

    first = operator.request("GET", "/web/operator/accounts", params={"search": "100", "limit": "1"}).json()

    assert [["100% Ünïcode"], ["a_b"], ["!bang"], ["ＷＩＤＥ"], []] == [
        found(search=text) for text in ("0% ü", "a_b", "!B", "wide", "nobody")
    ]
    assert ["a_b"] == found(search=made["a_b"])
    assert ["100 percent"] == found(search="100", after=first["next_cursor"])
    assert [["chief", "self-made"], ["axb"], []] == [
        found(state=state) for state in ("active", "suspended", "programs")
    ]
    assert [name for name in names if name != "axb"] == found(state="invited")
    assert ["a_b"] == found(state="invited", search="B", limit="1", after=made["100 percent"])
    assert [("state", "not_allowed")] == faults(operator.get("/web/operator/accounts?state=odd"))


def test_credit_is_given_once_however_often_it_is_sent(studio: Studio) -> None:
    """By its Idempotency-Key, which it must have; another credit under it is a conflict (P3)."""
    operator, guest = studio.operator(), studio.person("guest")
    path, asked = f"/web/operator/accounts/{guest.account_id()}/credit", {"amount_micros": 2_500_000}
    answers = [operator.post(path, asked, **{"Idempotency-Key": "click"}) for _ in range(3)]
    conflict = operator.post(path, {"amount_micros": 1}, **{"Idempotency-Key": "click"})
    nameless = operator.post(path, asked)
    taken = operator.act(path, {"amount_micros": -500_000, "note": "a slip"})
    ledger = guest.get("/web/v1/account/ledger").json()["data"]

    assert [2_500_000] * 3 == [answer.json()["available_micros"] for answer in answers]
    assert (409, "idempotency_conflict") == error(conflict)
    assert [("Idempotency-Key", "required")] == faults(nameless)
    assert 2_000_000 == taken.json()["available_micros"]
    assert [("adjust", "-0.500000"), ("credit", "2.500000")] == [
        (line["type"], line["amount"]) for line in ledger
    ]


def test_money_that_cannot_move_does_not(studio: Studio) -> None:
    """400 or 404 that says why; nothing is written."""
    operator = studio.operator()
    path = f"/web/operator/accounts/{operator.account_id()}/credit"
    cases = [
        (path, {"amount_micros": 0}, 400),
        (path, {"amount_micros": -1}, 400),
        (path, {"amount_micros": 10**16}, 400),
        (path, {"amount_micros": "1"}, 400),
        (path, {}, 400),
        (path, {"amount_micros": 1, "note": ""}, 400),
        (path, {"amount_micros": 1, "note": " "}, 400),
        (path.replace(operator.account_id(), NOBODY), {"amount_micros": 1}, 404),
        (path.replace(operator.account_id(), "x"), {"amount_micros": 1}, 404),
    ]

    assert [status for *_, status in cases] == [
        operator.act(where, asked).status_code for where, asked, _ in cases
    ]
    assert 0 == studio.row("select count(*) as n from entry")["n"]


def test_an_account_that_is_suspended_is_out_at_once(studio: Studio) -> None:
    """Sessions and keys end with the next request, the password lets nobody in, running jobs go on. Nobody
    could resume whoever suspended themselves.
    """
    studio.open_lane()
    operator, guest = studio.operator(), studio.person("guest")
    account_id = guest.account_id()
    key = {"Authorization": f"Bearer {guest.post('/web/keys', {'name': 'k'}).json()['key']}"}
    job_id = guest.submit()
    claim = studio.claim()
    path = f"/web/operator/accounts/{account_id}"
    suspended = operator.post(f"{path}/suspend").json()
    own = operator.post(f"/web/operator/accounts/{operator.account_id()}/suspend")
    out = [guest.get("/web/v1/jobs"), studio.browser().get("/v1/jobs", **key), guest.log_in("guest")]
    invited = operator.post(f"{path}/invitation")
    studio.world.finish(claim.attempt_id)
    resumed = operator.post(f"{path}/resume").json()
    still_out = guest.name()
    guest.log_in("guest")
    operator.post(f"{path}/suspend")
    # Somebody typed the password at the moment of the suspension.
    late = studio.signed_in(account_id).name()
    operator.post(f"{path}/resume")
    guest.log_in("guest")

    assert (True, False) == (suspended["suspended"], resumed["suspended"])
    assert (400, "operator") == (own.status_code, operator.name())
    assert [(401, "not_signed_in"), (401, "invalid_api_key"), (403, "forbidden")] == [
        error(answer) for answer in out
    ]
    assert (403, "forbidden") == error(invited)
    assert (None, None) == (still_out, late)
    assert "succeeded" == guest.get(f"/web/v1/jobs/{job_id}").json()["state"]
    assert 200 == studio.browser().get("/v1/jobs", **key).status_code


def test_an_accounts_models_can_be_narrowed(studio: Studio) -> None:
    """From the next request on; null opens them again."""
    operator, guest = studio.operator(), studio.person("guest")
    path = f"/web/operator/accounts/{guest.account_id()}/models"
    narrowed = operator.post(path, {"models": [SPEECH]}).json()
    seen = [model["id"] for model in guest.get("/web/v1/models").json()["data"]]
    wrong = [operator.post(path, {"models": ["nope"]}), operator.post(path, {})]
    operator.post(path, {"models": None})

    assert [SPEECH] == narrowed["models"] == seen
    assert [[("models[0]", "unknown_model")], [("models", "required")]] == [faults(each) for each in wrong]
    assert 1 < len(guest.get("/web/v1/models").json()["data"])


def test_the_service_at_a_glance(studio: Studio) -> None:
    """What waits and runs by lane, who works, and what each worker says of its engines."""
    studio.open_lane()
    operator = studio.operator()
    jobs = [operator.submit() for _ in range(3)]
    studio.claim()
    studio.pass_time(5000)
    queue = operator.get("/web/operator/queue").json()
    [worker] = operator.get("/web/operator/workers").json()["data"]
    models = {model["id"]: model for model in operator.get("/web/operator/models").json()["data"]}

    assert 3 == len(jobs)
    assert (2, 1, 1) == tuple(queue[name]["speech"] for name in ("queued", "running", "slots"))
    assert (0, 0) == (queue["queued"]["image"], queue["recovery_required"]["speech"])
    assert (studio.now_ms - 5000) // 1000 == queue["oldest_queued_at"]
    assert ("worker_a", "here", 1, 5.0) == tuple(worker[n] for n in ("id", "host", "pid", "seen_s_ago"))
    assert [METERED, SPEECH] == [model["model"] for model in worker["models"]]
    assert (True, None) == (models[SPEECH]["callable"], models[SPEECH]["callable_reason"])
    assert ["worker_a"] == [each["worker_id"] for each in models[SPEECH]["workers"]]
    assert [] == models["fake/image"]["workers"]
    assert not models["fake/image"]["callable"]


def test_a_damaged_worker_breaks_no_list(studio: Studio) -> None:
    """The other is shown whole, and of this one what can be read; each value keeps its type."""
    studio.open_lane()
    operator = studio.operator()
    studio.world.register("worker_b", frozenset({SPEECH}))
    before = operator.get("/web/operator/workers").json()["data"]
    studio.world.run("update worker set abilities = '[oops', engines = '{' where id = 'worker_b'")
    if studio.database.dialect == "sqlite":  # PostgreSQL takes no text that is not UTF-8.
        studio.world.run("update worker set machine = cast(x'68ff3a31' as text) where id = 'worker_b'")
        studio.world.run("update worker_model set reason = cast(x'ff' as text) where worker_id = 'worker_b'")
    after = operator.get("/web/operator/workers").json()["data"]
    models = {model["id"]: model for model in operator.get("/web/operator/models").json()["data"]}

    assert before[0] == after[0]
    assert ([], {}) == (after[1]["abilities"], after[1]["engines"])
    assert ["worker_a", "worker_b"] == sorted(worker["worker_id"] for worker in models[SPEECH]["workers"])
    if studio.database.dialect == "sqlite":
        assert ("h?", "h?:1", "?") == (after[1]["host"], after[1]["machine"], after[1]["models"][0]["reason"])


@pytest.fixture
def paid(open_studio: Open) -> Studio:
    """A studio where metered speech costs 8 fen, and everybody begins with 1 CNY."""
    studio = open_studio(
        registration="open", initial_credit="1", models={METERED: {"price": "0.08", "hold": "0.1"}}
    )
    studio.open_lane(jobs=9)
    return studio


def test_the_inbox_and_its_ways_out(paid: Studio) -> None:
    """A job whose paid call may have been made waits, with its evidence, until the operator decides (P10)."""
    operator, guest = paid.operator("chief"), paid.person("guest")
    jobs = [lost(paid, guest) for _ in range(3)]
    inbox = operator.get("/web/operator/recovery").json()["data"]
    shown = operator.get(f"/web/operator/recovery/{jobs[0]}").json()
    path = "/web/operator/recovery/"
    nothing = operator.act(path + jobs[0], {"action": "complete"})
    voided = operator.act(path + jobs[0], {"action": "void", "note": "asked upstream"})
    requeued = operator.act(path + jobs[1], {"action": "requeue"})
    cancelled = operator.act(path + jobs[2], {"action": "void", "cancelled": True})
    again = operator.act(path + jobs[0], {"action": "void"})
    balance = guest.get("/web/v1/account/balance").json()

    assert [(job, "guest", 100_000) for job in jobs] == [
        (line["id"], line["account_name"], line["held_micros"]) for line in inbox
    ]
    assert ("recovery_required", True) == (shown["job"]["state"], shown["exits"]["complete"]["needs_file"])
    assert (400, "invalid_request") == error(nothing)
    assert ["failed", "queued", "cancelled"] == [
        answer.json()["job"]["state"] for answer in (voided, requeued, cancelled)
    ]
    assert (400, "invalid_request") == error(again)
    assert "voided by chief: asked upstream" == voided.json()["money"]["entries"][-1]["note"]
    assert ("0.900000", "0.100000") == (balance["available"], balance["held"])
    assert "chief" not in guest.get(f"/web/v1/jobs/{jobs[0]}/events").text
    assert "chief" not in guest.get("/web/ledger.csv").text


def test_a_recorded_result_completes_the_job(paid: Studio) -> None:
    """When its bytes are intact; the caller is charged once and has the file."""
    operator, guest = paid.operator(), paid.person("guest")
    job_id = guest.submit(model=METERED)
    claim = paid.claim()
    paid.world.fence(claim.attempt_id)
    blob = paid.service.blobs.write(paid.service.ids.new("blob"), b"sound")
    paid.world.unknown(claim.attempt_id)
    paid.world.record(claim.attempt_id, RecordedResult(blob, "audio/wav", {}, 1000))
    done = operator.act(f"/web/operator/recovery/{job_id}", {"action": "complete"})
    operation = guest.get(f"/web/v1/jobs/{job_id}").json()
    content = guest.get(f"/web/v1/artifacts/{operation['artifacts'][0]['id']}/content")

    assert (200, "succeeded") == (done.status_code, operation["state"])
    assert (b"sound", "0.080000") == (content.content, operation["billing"]["charged"])
    assert "private, no-cache" == content.headers["cache-control"]


def test_a_decision_that_is_sent_again_decides_once(paid: Studio) -> None:
    """A job that was requeued may wait once more; the same click does not requeue it again (P3, P10)."""
    operator, guest = paid.operator(), paid.person("guest")
    job_id = lost(paid, guest)
    path, asked = f"/web/operator/recovery/{job_id}", {"action": "requeue"}
    first = operator.act(path, asked, "click")
    claim = paid.claim()
    paid.world.fence(claim.attempt_id)
    paid.world.unknown(claim.attempt_id)
    second = operator.act(path, asked, "click")
    other = operator.act(path, {"action": "void"}, "click")
    nameless = operator.post(path, asked)

    assert ["queued", "recovery_required"] == [answer.json()["job"]["state"] for answer in (first, second)]
    assert (409, "idempotency_conflict") == error(other)
    assert [("Idempotency-Key", "required")] == faults(nameless)


def lost(studio: Studio, browser: Browser) -> str:
    """A metered job whose worker can't say how its call ended."""
    job_id = browser.submit(model=METERED)
    claim = studio.claim()
    assert job_id == claim.job_id
    studio.world.fence(claim.attempt_id)
    studio.world.unknown(claim.attempt_id)
    return job_id


def test_the_charts_show_what_ended_and_what_it_cost(studio: Studio) -> None:
    """In slots of the period that was asked for, by model and by day; other periods are refused."""
    studio.open_lane()
    operator = studio.operator()
    operator.submit("Hold.")
    studio.world.finish(studio.claim().attempt_id)
    shown = operator.get("/web/operator/statistics?period=week").json()
    [model] = shown["models"]

    assert ("week", 56, 8) == (shown["period"], len(shown["slots"]), len(shown["days"]))
    assert shown["from"] == shown["complete_from"] == shown["slots"][0]["at"]
    assert (1, 1, 0, 0) == tuple(
        shown["slots"][-1][name] for name in ("finished", "succeeded", "failed", "queued")
    )
    assert (SPEECH, 1, 0) == (model["model"], model["finished"], model["charged_micros"])
    assert 1 == shown["days"][-1]["jobs"]
    assert [("period", "not_allowed")] == faults(operator.get("/web/operator/statistics?period=year"))


def test_a_price_holds_for_what_is_accepted_from_then_on(studio: Studio) -> None:
    """On every process at once, for it is read with the submission; an accepted job keeps its own (P3)."""
    studio.open_lane()
    operator, guest = studio.operator("chief"), studio.person("guest")
    operator.act(f"/web/operator/accounts/{guest.account_id()}/credit", {"amount_micros": 1_000_000})
    before = guest.submit("Hold.")
    priced = operator.post(
        "/web/operator/models", {"model": SPEECH, "enabled": True, "price_micros": 7}
    ).json()
    after = guest.submit("Hold it.")
    catalog_price = guest.get("/web/v1/models").json()["data"][0]["pricing"]["price"]
    for _ in range(2):
        studio.world.finish(studio.claim().attempt_id)
    charged = [guest.get(f"/web/v1/jobs/{each}").json()["billing"]["charged"] for each in (before, after)]
    reset = operator.post(
        "/web/operator/models", {"model": SPEECH, "enabled": True, "price_micros": None}
    ).json()

    assert ("0.000007", 7) == (priced["pricing"]["price"], priced["price_micros"])
    assert ["0.000000", "0.000007"] == charged
    assert "0.000007" == catalog_price
    assert ("0.000000", None) == (reset["pricing"]["price"], reset["price_micros"])


def test_a_model_that_is_switched_off_accepts_nothing(studio: Studio) -> None:
    """503 and not callable, for jobs and chats; accepted jobs continue, and a repeated request replays."""
    studio.open_lane()
    operator = studio.operator("chief")
    job_id = operator.submit("Hold.", key="once")
    off = operator.post(
        "/web/operator/models", {"model": SPEECH, "enabled": False, "price_micros": None}
    ).json()
    asked = {"model": SPEECH, "parameters": {"text": "Hold."}}
    refused = operator.act("/web/v1/jobs", asked)
    again = operator.submit("Hold.", key="once")
    studio.world.finish(studio.claim().attempt_id)
    chat = {"model": "fake/chat", "messages": [{"role": "user", "content": "hi"}]}
    operator.post("/web/operator/models", {"model": "fake/chat", "enabled": False, "price_micros": None})
    silent = operator.post("/web/v1/chat/completions", chat)
    on = operator.post(
        "/web/operator/models", {"model": SPEECH, "enabled": True, "price_micros": None}
    ).json()

    assert (False, False, "switched off by the operator") == (
        off["enabled"],
        off["callable"],
        off["callable_reason"],
    )
    assert [(503, "model_unavailable")] * 2 == [error(refused), error(silent)]
    assert job_id == again
    assert "succeeded" == operator.get(f"/web/v1/jobs/{job_id}").json()["state"]
    assert on["callable"]
    assert 202 == operator.act("/web/v1/jobs", asked).status_code


def test_changes_of_models_are_noted_once(studio: Studio) -> None:
    """Who set what and when, newest first; a request that changes nothing is none. The rest is refused."""
    operator = studio.operator("chief")
    sent = {"model": SPEECH, "enabled": False, "price_micros": 5}
    for _ in range(2):
        operator.post("/web/operator/models", sent)
    operator.post("/web/operator/models", sent | {"enabled": True})
    noted = operator.get("/web/operator/changes").json()["data"]
    wrong = [
        operator.post("/web/operator/models", sent | change)
        for change in ({"model": "nope"}, {"price_micros": -1}, {"model": "fake/chat"}, {"enabled": None})
    ]

    assert [(True, 5), (False, 5)] == [(each["enabled"], each["price_micros"]) for each in noted]
    assert [("chief", SPEECH)] * 2 == [(each["operator"], each["model"]) for each in noted]
    assert [
        [("model", "unknown_model")],
        [("price_micros", "out_of_range")],
        [("price_micros", "not_allowed")],
        [("enabled", "wrong_type")],
    ] == [faults(each) for each in wrong]


def test_the_newest_events_of_the_log_are_shown(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, by level and name, long values cut, of an exception its text; and whose log it is."""
    events = logs.RecentEvents(3)
    monkeypatch.setattr(logs, "recent_events", events)
    for number in range(3):
        events.note(
            {"event": "job.succeeded", "level": "info", "timestamp": str(number), "job_id": "j" * 999}
        )
    try:
        raise ValueError("no")
    except ValueError:
        events.note({"event": "http.failed", "level": "error", "timestamp": "3", "exc_info": True})
    operator = studio.operator()
    shown = operator.get("/web/operator/log").json()
    worst = operator.get("/web/operator/log?level=warning").json()["data"]
    named = operator.get("/web/operator/log?event=job.&limit=1").json()["data"]

    assert ["3", "2", "1"] == [each["at"] for each in shown["data"]]
    assert [("http.failed", {"exception": "ValueError: no"})] == [
        (each["event"], each["keys"]) for each in worst
    ]
    assert [("2", logs.MAX_CHARACTERS)] == [(each["at"], len(each["keys"]["job_id"])) for each in named]
    assert os.getpid() == shown["process"]["pid"]
    assert [("level", "not_allowed")] == faults(operator.get("/web/operator/log?level=odd"))
