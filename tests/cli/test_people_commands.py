"""`tenuto admin accounts invite`, `suspend`, `unsuspend`: what they print, and what the studio shows."""

import json
import re

import httpx2
import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService

pytestmark = pytest.mark.variant("database", only="postgresql")

PASSWORD = "a long enough password"


def test_an_invitation_leads_into_the_studio(paid_service: RunningService) -> None:
    """The link is where the service listens; its token sets a password, suspend and resume hold at once."""
    name = f"guest of {paid_service.port} & more"
    done = paid_service.command("admin", "accounts", "invite", name)
    again = json.loads(paid_service.command("admin", "accounts", "invite", name, "--json").stdout)
    url, _, token = again["link"].partition("/invite#")
    old = done.stdout.strip().partition("#")[2]
    with httpx2.Client(base_url=url, headers={"Origin": url}, timeout=120) as browser:
        asked = {"token": old, "password": PASSWORD}
        ended = browser.post("/web/invitations/accept", json=asked).status_code
        entered = browser.post("/web/invitations/accept", json=asked | {"token": token})
        paid_service.command("admin", "accounts", "suspend", name)
        out = browser.get("/web/keys").status_code
        paid_service.command("admin", "accounts", "unsuspend", name)
        login = browser.post("/web/login", json={"name": name, "password": PASSWORD})

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


def test_an_account_that_is_invited_begins_with_the_credit_that_is_set(operator: Operator) -> None:
    operator("admin", "accounts", "create", "old")
    for name in ("old", "new"):
        operator("admin", "accounts", "invite", name, initial_credit="2.5")

    assert [("old", "20.000000", "active"), ("new", "2.500000", "active")] == [
        (line["name"], line["available"], line["state"])
        for line in rows(operator("admin", "accounts", "list"))
    ]


def test_a_command_that_cannot_be_done_changes_nothing(operator: Operator) -> None:
    operator("admin", "accounts", "create", "out")
    operator("admin", "accounts", "suspend", "out")
    cases = {
        "suspended": operator("admin", "accounts", "invite", "out"),
        "does not accept new people": operator("admin", "accounts", "invite", "new", registration="closed"),
        "1 to 80 printable characters": operator("admin", "accounts", "invite", " x"),
        "there is no account 'account_00000000000000000000000000'": operator(
            "admin", "accounts", "invite", "account_" + "0" * 26
        ),
        "there is no account 'nobody'": operator("admin", "accounts", "suspend", "nobody"),
        "there is no account 'nobody';": operator("admin", "accounts", "unsuspend", "nobody"),
        "registration: 'ajar' is not one of open, invite, closed": operator(
            "admin", "accounts", "invite", "x", registration="ajar"
        ),
        "trusted_proxies: 'proxy' is not a list of addresses": operator(
            "admin", "accounts", "invite", "x", trusted_proxies="proxy"
        ),
        "public_url: 'tenuto.example.com/x' is not an address": operator(
            "admin", "accounts", "invite", "x", public_url="tenuto.example.com/x"
        ),
        "initial_credit: '1e3' is not an amount": operator(
            "admin", "accounts", "invite", "x", initial_credit="1e3"
        ),
    }
    listed = rows(operator("admin", "accounts", "list"))

    assert {1} == {done.returncode for done in cases.values()}
    assert not [said for said, done in cases.items() if said not in done.stderr or done.stdout]
    assert "suspended" in told(cases["suspended"])
    assert [("out", "suspended")] == [(line["name"], line["state"]) for line in listed]
