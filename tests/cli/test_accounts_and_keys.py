"""`tenuto admin accounts` and `keys`: what they print, and what it means for the next request."""

import json
import re

import httpx2
import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database_opening import open_database

pytestmark = pytest.mark.variant("database", only="postgresql")


def test_accounts_are_made_listed_and_credited(operator: Operator) -> None:
    """Amounts are CNY, exact to six places; the table is the same as the JSON."""
    made = operator("admin", "accounts", "create", "me", "--credit", "1.5")
    other = operator.json("admin", "accounts", "create", "another one", "--credit", "0.000001")
    credited = operator("admin", "accounts", "credit", "me", "10")
    taken = operator("admin", "accounts", "credit", other["id"], "-0.000001")
    listed = operator.json("admin", "accounts", "list")

    assert made.stdout.endswith("  me  1.500000 CNY\n")
    assert made.stderr == "To create a key for it: tenuto admin keys create --account me\n"
    assert {"name": "another one", "available": "0.000001"} == {k: other[k] for k in ("name", "available")}
    assert ("me: 11.500000 CNY available\n", "") == (credited.stdout, credited.stderr)
    assert taken.stdout.endswith(": 0.000000 CNY available\n")
    assert [("me", "11.500000", "0.000000"), ("another one", "0.000000", "0.000000")] == [
        (line["name"], line["available"], line["held"]) for line in listed
    ]
    assert rows(operator("admin", "accounts", "list")) == listed


def test_a_new_account_begins_with_what_the_settings_say(operator: Operator) -> None:
    """20 CNY, or another amount, also of one that is invited; no word of money where prices are free."""
    usual = operator("admin", "accounts", "create", "usual")
    free = operator("admin", "accounts", "create", "free", prices="free")
    for name in ("usual", "invited"):
        operator("admin", "accounts", "invite", name, initial_credit="2.5")
    listed = operator.json("admin", "accounts", "list")
    table = operator("admin", "accounts", "list", prices="free").stdout
    credited = operator("admin", "accounts", "credit", "free", "1", prices="free").stdout

    assert usual.stdout.endswith("  usual  20.000000 CNY\n") and free.stdout.endswith("  free\n")
    assert ["id", "name", "state", "created"] == table.splitlines()[0].split("\t") and "0.000000" not in table
    assert "free: nothing costs anything on this service\n" == credited
    assert ["20.000000", "0.000000", "2.500000"] == [line["available"] for line in listed]


def test_a_command_that_cannot_be_done_changes_nothing(operator: Operator) -> None:
    """One line says why, with what there is; neither an account nor a key is made, no money moves."""
    operator("admin", "accounts", "create", "me", "--credit", "0")
    operator("admin", "accounts", "suspend", "me")
    before = operator.json("admin", "accounts", "list"), operator.json("admin", "keys", "list")
    cases = {
        "accounts create me": "there is an account named 'me' already",
        "accounts create you --credit -1": "less than that available",
        "accounts credit nobody 1": "there is no account 'nobody'; `tenuto admin accounts list`",
        "accounts credit me 1e3": "is not an amount in CNY",
        "accounts credit me -0.01": "less than that available",
        "accounts suspend nobody": "there is no account 'nobody'",
        "accounts invite me": "suspended",
        "keys create --account nobody": "there is no account 'nobody'",
        "keys create --account me --models fake/speech,no": "there is no model no; there are",
        "keys create --account me --expires tomorrow": "is not a length of time",
        "keys rotate key_nope": "there is no key 'key_nope' that could be rotated",
        "keys revoke key_nope": "there is no key 'key_nope'; `tenuto admin keys list`",
    }
    done = {line: operator("admin", *line.split(), engines="fake") for line in cases}
    closed = operator("admin", "accounts", "invite", "new", registration="closed")

    assert not [line for line, said in cases.items() if said not in told(done[line])]
    assert "does not accept new people" in told(closed)
    assert {1} == {each.returncode for each in (*done.values(), closed)}
    assert before == (operator.json("admin", "accounts", "list"), operator.json("admin", "keys", "list"))


def test_a_key_is_shown_once_and_stdout_holds_nothing_else(operator: Operator) -> None:
    """`KEY=$(tenuto admin keys create …)` works; the list has prefix and last four characters only."""
    operator("admin", "accounts", "create", "me")
    made = operator("admin", "keys", "create", "--account", "me", "--name", "laptop", "--expires", "30d")
    key = made.stdout.removesuffix("\n")
    [listed] = operator.json("admin", "keys", "list")
    table = operator("admin", "keys", "list")

    assert key.startswith("tn_")
    assert "shown only this once" in made.stderr
    assert key not in made.stderr + table.stdout
    assert ("me", "laptop", f"{key[:7]}…{key[-4:]}", None, None) == tuple(
        listed[name] for name in ("account", "name", "key", "models", "revoked")
    )
    assert listed["expires"] > "2026"
    assert ["all"] == [line["models"] for line in rows(table)]


def test_revoking_rotating_and_expiring_hold_from_the_next_request_on(paid_service: RunningService) -> None:
    """A rotated secret ends after its grace (24 h, and none), an expired or a revoked key at once."""
    paid_service.make_key("rotating")
    made = paid_service.command_json("admin", "keys", "create", "--account", "rotating")
    asks = [status(paid_service, made["key"])]
    graced = paid_service.command_json("admin", "keys", "rotate", made["id"])
    asks += [status(paid_service, made["key"]), status(paid_service, graced["key"])]
    last = paid_service.command_json("admin", "keys", "rotate", made["id"], "--grace", "0s")
    asks += [status(paid_service, graced["key"]), status(paid_service, last["key"])]
    revoked = paid_service.command("admin", "keys", "revoke", made["id"])
    asks += [status(paid_service, made["key"]), status(paid_service, last["key"])]
    expired = paid_service.command_json("admin", "keys", "create", "--account", "rotating", "--expires", "0s")

    assert [200, 200, 200, 401, 200, 401, 401] == asks
    assert f"{made['id']} is revoked\n" == revoked.stdout
    assert {made["id"]} == {graced["id"], last["id"]}
    assert 401 == status(paid_service, expired["key"])
    assert 1 == paid_service.command("admin", "keys", "rotate", made["id"], check=False).returncode


def status(service: RunningService, key: str) -> int:
    """What a request with this key is answered."""
    with service.client(key) as client:
        return client.get("/v1/models").status_code


def test_a_damaged_restriction_is_listed_as_one(operator: Operator, database_url: str) -> None:
    """One bad row breaks no list: the other keys are shown, and this one says what is wrong with it."""
    operator.settings.update(database=database_url, engines="fake")
    operator("admin", "accounts", "create", "me")
    for name in ("whole", "broken"):
        operator("admin", "keys", "create", "--account", "me", "--name", name, "--models", "fake/speech")
    database = open_database(database_url)
    database.write(lambda tx: tx.run("update api_key set models = '[oops' where name = 'broken'"))
    database.close()
    table = operator("admin", "keys", "list")
    listed = operator.json("admin", "keys", "list")

    assert ["fake/speech", "damaged"] == [line["models"] for line in rows(table)]
    assert [(["fake/speech"], False), ([], True)] == [(line["models"], line["damaged"]) for line in listed]


def test_an_invitation_leads_into_the_studio(paid_service: RunningService) -> None:
    """The link is where the service listens; its token sets a password, suspend and resume hold at once."""
    name = f"guest of {paid_service.port} & more"
    done = paid_service.command("admin", "accounts", "invite", name)
    again = json.loads(paid_service.command("admin", "accounts", "invite", name, "--json").stdout)
    url, _, token = again["link"].partition("/invite#")
    old = done.stdout.strip().partition("#")[2]
    with httpx2.Client(base_url=url, headers={"Origin": url}, timeout=120) as browser:
        asked = {"token": old, "password": "a long enough password"}
        ended = browser.post("/web/invitations/accept", json=asked).status_code
        entered = browser.post("/web/invitations/accept", json=asked | {"token": token})
        paid_service.command("admin", "accounts", "suspend", name)
        out = browser.get("/web/keys").status_code
        paid_service.command("admin", "accounts", "unsuspend", name)
        login = browser.post("/web/login", json={"name": name, "password": "a long enough password"})

    assert paid_service.url == url
    assert done.stdout.startswith(f"{url}/invite#")
    assert (400, 201, 401, 200) == (ended, entered.status_code, out, login.status_code)
    assert (again["id"], name) == (entered.json()["account"]["id"], login.json()["account"]["name"])


def test_links_stand_on_the_public_address(operator: Operator) -> None:
    """Where nothing runs, the setting tells; an account that has keys alone is invited as it is."""
    operator("admin", "accounts", "create", "me")
    here = operator("admin", "accounts", "invite", "me", port="9000", host="0.0.0.0")
    public = operator("admin", "accounts", "invite", "me", public_url="https://tenuto.example.com")

    assert re.fullmatch(r"http://localhost:9000/invite#[\w-]{43}\n", here.stdout)
    assert public.stdout.startswith("https://tenuto.example.com/invite#")
    assert "once, within 7 days" in public.stderr
    assert ["me"] == [line["name"] for line in rows(operator("admin", "accounts", "list"))]
