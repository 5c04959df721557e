"""What was spent: exact sums of the ledger, a job's lines, and the table that spreadsheets open."""

import csv
import datetime
import io
from typing import Any

import httpx2
import pytest

from features.studio.browsers import DAY_MS, Browser, Studio, error, faults
from features.studio.conftest import Open
from servers.world import METERED, SPEECH
from tenuto.features.studio import money

pytestmark = pytest.mark.variant("database", only="postgresql")

IMAGE = "fake/image"
PRICES = {SPEECH: {"price": "0.05", "hold": "0.07"}, METERED: {"price": "0.000001"}}
FORMULAS = ('=HYPERLINK("http://evil.test")', "+1", "-1", "@SUM(A1)", "＝1", "a;=1")


@pytest.fixture
def studio(open_studio: Open) -> Studio:
    """Speech costs 5 fen, metered speech a millionth; everybody begins with 1 CNY."""
    studio = open_studio(registration="open", initial_credit="1", models=PRICES)
    studio.open_lane()
    return studio


def test_usage_is_what_the_ledger_says(studio: Studio) -> None:
    """Sums by model, key and day over jobs that were charged, to the micro; others' jobs are not in them."""
    browser = studio.person("me")
    key = browser.post("/web/keys", {"name": "laptop"}).json()
    days = [day_of(studio)]
    for model in (SPEECH, METERED):
        make(studio, browser, model)
    studio.pass_time(DAY_MS)
    studio.hear_of_worker()
    days.append(day_of(studio))
    make(studio, browser, SPEECH, by_key=key["key"])
    make(studio, studio.person("they"), SPEECH)
    browser.submit()
    studio.world.fail(studio.claim().attempt_id)
    found = {group: usage(browser, group=group) for group in ("model", "key", "day")}
    settled = studio.row(
        """select cast(sum(revenue_micros) as bigint) as charged from entry
           where account_id = :id and type = 'settle'""",
        id=browser.account_id(),
    )["charged"]

    assert {100_001} == {settled, *(answer["charged_micros"] for answer in found.values())}
    assert [(SPEECH, 2, 100_000), (METERED, 1, 1)] == lines(found["model"])
    assert [("studio", 2, 50_001), ("laptop", 1, 50_000)] == [
        (line["label"], line["jobs"], line["charged_micros"]) for line in found["key"]["data"]
    ]
    assert [(days[0], 2, 50_001), (days[1], 1, 50_000)] == lines(found["day"])
    assert [(days[1], 1, 50_000)] == lines(usage(browser, group="day", **{"from": days[1], "to": days[1]}))
    assert [] == usage(browser, to="2020-01-01")["data"]


def test_where_prices_are_free_nothing_is_held(open_studio: Open) -> None:
    """An account without credit has a picture accepted; the ledger has its line, of 0."""
    studio = open_studio(registration="open", prices="free", initial_credit="5")
    studio.world.register("worker_a", frozenset([IMAGE]))
    browser = studio.person("me")
    asked = {"model": IMAGE, "parameters": {"prompt": "a red circle"}}
    job = browser.post("/web/v1/jobs", asked, **{"Idempotency-Key": "one"}).json()
    balance = browser.get("/web/v1/account/balance").json()
    lines = browser.get(f"/web/jobs/{job['id']}/ledger").json()["data"]

    assert {"held": "0.000000", "charged": "0.000000", "currency": "CNY"} == job["billing"]
    assert "0.000000" == balance["total"]
    assert [("hold", "0.000000")] == [(line["type"], line["amount"]) for line in lines]


def test_a_job_of_a_kind_that_is_gone_is_listed_and_counted(studio: Studio) -> None:
    """Its package was uninstalled: by its name in both, for money was paid; and other kinds are refused."""
    browser = studio.person("me")
    job_id = make(studio, browser, SPEECH)
    studio.world.run("update job set kind = 'shout', model = 'toy/shout' where id = :id", id=job_id)
    [listed] = browser.get("/web/v1/jobs").json()["data"]
    [line] = browser.get("/web/v1/usage").json()["data"]

    assert (job_id, "shout") == (listed["id"], listed["kind"])
    assert ("shout", 1, 0) == (line["kind"], line["jobs"], line["images"])
    assert [("kind", "not_allowed")] == faults(browser.get("/web/v1/jobs?kind=dance"))


def test_a_jobs_lines_are_its_hold_and_its_end(studio: Studio) -> None:
    """Oldest first; another account's job is answered like one that is none (P12)."""
    browser = studio.person("me")
    job_id = make(studio, browser, SPEECH)
    found = browser.get(f"/web/jobs/{job_id}/ledger").json()["data"]
    stranger = studio.person("they")
    refused = [stranger.get(f"/web/jobs/{each}/ledger") for each in (job_id, "job_" + "0" * 26, "job_x")]

    assert [("hold", "0.070000"), ("settle", "0.050000")] == [
        (line["type"], line["amount"]) for line in found
    ]
    assert ["-0.070000", "0.020000"] == [line["available_change"] for line in found]
    assert {(404, "not_found")} == {error(answer) for answer in refused}


def test_the_table_has_every_line_and_adds_up(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oldest first, however many pages it takes; the changes sum to the account's balance."""
    monkeypatch.setattr(money, "PAGE_LINES", 2)
    browser = studio.person("me")
    jobs = [make(studio, browser, SPEECH), make(studio, browser, METERED)]
    make(studio, studio.person("they"), SPEECH)
    jobs.append(browser.submit())
    answer = browser.get("/web/ledger.csv")
    rows = table(answer)
    balance = browser.get("/web/v1/account/balance").json()

    assert list(money.COLUMNS) == list(rows[0])
    assert "text/csv; charset=utf-8; header=present" == answer.headers["content-type"]
    assert 'attachment; filename="ledger.csv"' == answer.headers["content-disposition"]
    assert ["credit", "hold", "settle", "hold", "settle", "hold"] == [row["type"] for row in rows]
    assert ["", jobs[0], jobs[0], jobs[1], jobs[1], jobs[2]] == [row["job_id"] for row in rows]
    assert (balance["available"], balance["held"]) == (
        total(rows, "available_change"),
        total(rows, "held_change"),
    )
    assert {SPEECH, METERED, ""} == {row["model"] for row in rows}


def test_no_cell_is_a_formula(studio: Studio) -> None:
    """Names of keys and notes are people's: what a spreadsheet would run is led by an apostrophe."""
    browser = studio.person("me")
    operator = studio.operator()
    for name in FORMULAS:
        key = browser.post("/web/keys", {"name": name}).json()["key"]
        make(studio, browser, METERED, by_key=key)
    for note in FORMULAS:
        path = f"/web/operator/accounts/{browser.account_id()}/credit"
        assert 200 == operator.act(path, {"amount_micros": 1, "note": note}).status_code
    rows = table(browser.get("/web/ledger.csv"))
    texts = [row[name] for row in rows for name in ("model", "key", "note")]

    assert {f"'{name}" for name in FORMULAS[:-1]} | {"a;'=1"} <= set(texts)
    assert [] == [text for text in texts if text.startswith(tuple("=+-@＝\t"))]


def make(studio: Studio, browser: Browser, model: str, *, by_key: str | None = None) -> str:
    """A job that is charged, submitted in the studio or with a key."""
    if by_key is None:
        job_id = browser.submit(model=model)
    else:
        head = {"Authorization": f"Bearer {by_key}", "Idempotency-Key": by_key[:20]}
        asked = {"model": model, "parameters": {"text": "Hold the note."}}
        job_id = studio.browser().post("/v1/jobs", asked, **head).json()["id"]
    claim = studio.claim()
    assert job_id == claim.job_id
    if model == METERED:
        assert studio.world.fence(claim.attempt_id)
    studio.world.finish(claim.attempt_id)
    return job_id


def usage(browser: Browser, **query: str) -> Any:
    answer = browser.get(f"/web/usage?{httpx2.QueryParams(query)}")
    assert 200 == answer.status_code, answer.text
    return answer.json()


def lines(answer: Any) -> list[tuple[str, int, int]]:
    return [(line["group"], line["jobs"], line["charged_micros"]) for line in answer["data"]]


def table(answer: httpx2.Response) -> list[dict[str, str]]:
    """The rows of the table, as a spreadsheet reads them."""
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def total(rows: list[dict[str, str]], name: str) -> str:
    micros = sum(int(row[name].replace(".", "")) for row in rows)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def day_of(studio: Studio) -> str:
    return datetime.datetime.fromtimestamp(studio.now_ms / 1000, datetime.UTC).date().isoformat()
