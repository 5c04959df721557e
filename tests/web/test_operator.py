"""The operator's pages: accounts and credit, the service at a glance, the inbox of jobs that wait."""

import pytest

from servers.world import METERED, SPEECH
from tenuto.catalog import operations as catalog
from tenuto.db.database import Transaction
from tenuto.jobs.lifecycle import RecordedResult
from tenuto.web.app import ROUTES
from web.browsers import Browser, Studio, error, faults
from web.conftest import Open

NOBODY = "account_" + "0" * 26


def test_nobody_else_can_tell_what_there_is(studio: Studio) -> None:
    """403 in the same words on every path, for what exists and for what does not (P12)."""
    operator, other = studio.operator(), studio.person("other")
    ids = (operator.account_id(), NOBODY, "x")
    paths = [
        (method, path.replace("{account_id}", each).replace("{job_id}", each))
        for path, handlers in ROUTES.items()
        if path.startswith("/web/operator/")
        for method in handlers
        for each in ids
    ]
    answers = [other.request(method, path) for method, path in paths]

    assert {(403, "forbidden")} == {error(answer) for answer in answers}
    assert 1 == len({answer.json()["error"]["message"] for answer in answers})
    assert 33 <= len(answers)


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
    """Sessions and keys end with the next request, the password lets nobody in, running jobs go on."""
    studio.open_lane()
    operator, guest = studio.operator(), studio.person("guest")
    account_id = guest.account_id()
    key = {"Authorization": f"Bearer {guest.post('/web/keys', {'name': 'k'}).json()['key']}"}
    job_id = guest.submit()
    claim = studio.claim()
    path = f"/web/operator/accounts/{account_id}"
    suspended = operator.post(f"{path}/suspend").json()
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
    assert [(401, "not_signed_in"), (401, "invalid_api_key"), (403, "forbidden")] == [
        error(answer) for answer in out
    ]
    assert (403, "forbidden") == error(invited)
    assert (None, None) == (still_out, late)
    assert "succeeded" == guest.get(f"/web/v1/jobs/{job_id}").json()["state"]
    assert 200 == studio.browser().get("/v1/jobs", **key).status_code


def test_the_operator_stays(studio: Studio) -> None:
    """Nobody could resume whoever suspended themselves."""
    operator = studio.operator()

    assert 400 == operator.post(f"/web/operator/accounts/{operator.account_id()}/suspend").status_code
    assert "operator" == operator.name()


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


def test_a_worker_shows_what_it_cannot_run_and_what_its_engines_take(studio: Studio) -> None:
    """The operator reads why a model is not offered there, and how full the machine is."""
    operator = studio.operator()
    away = {"model": "fake/image", "memory_mib": 300, "reason": "not on this machine: /srv/python"}

    def register(tx: Transaction) -> None:
        catalog.register_worker(
            tx,
            "worker_b",
            machine="there",
            pid=2,
            lock_name="worker_b.lock",
            models=[SPEECH],
            now_ms=studio.now_ms,
            abilities=[away],
            engine_memory_mib=900,
        )
        catalog.engines_weighed(tx, "worker_b", {SPEECH: 120})

    studio.database.write(register)
    workers = {worker["id"]: worker for worker in operator.get("/web/operator/workers").json()["data"]}

    shown = workers["worker_b"]
    assert ([away], {SPEECH: 120}, 900) == tuple(
        shown[name] for name in ("abilities", "engines", "engine_memory_mib")
    )


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


def test_decisions_that_are_none_are_refused(paid: Studio) -> None:
    """Faults are named; a job that is not there is not found."""
    operator = paid.operator()
    job_id = lost(paid, operator)
    path = f"/web/operator/recovery/{job_id}"
    cases = {
        "action": operator.act(path, {"action": "forget"}),
        "note": operator.act(path, {"action": "void", "note": "x" * 1001}),
        "cancelled": operator.act(path, {"action": "requeue", "cancelled": True}),
    }
    missing = operator.act(path.replace(job_id, "job_" + "0" * 26), {"action": "void"})

    assert [[("action", "not_allowed")], [("note", "too_long")], [("cancelled", "conflict")]] == [
        faults(answer) for answer in cases.values()
    ]
    assert (404, "not_found") == error(missing)
    assert "recovery_required" == paid.world.state(job_id)


def lost(studio: Studio, browser: Browser) -> str:
    """A metered job whose worker can't say how its call ended."""
    job_id = browser.submit(model=METERED)
    claim = studio.claim()
    assert job_id == claim.job_id
    studio.world.fence(claim.attempt_id)
    studio.world.unknown(claim.attempt_id)
    return job_id
