"""`tenuto admin accounts`, `keys` and `voices`: what they print, and what it means for the next request."""

from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database_opening import open_database
from tenuto.features.decoding.wav import pcm16_wav

pytestmark = pytest.mark.variant("database", only="postgresql")

CANNOT_BE_DONE = {
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


def test_accounts_are_made_listed_and_credited(operator: Operator) -> None:
    """Amounts are CNY, exact to six places, and 20 at first, or as the settings say; the table is the same as
    the JSON. Where prices are free there is no word of money."""
    made = operator("admin", "accounts", "create", "me", "--credit", "1.5")
    other = operator.json("admin", "accounts", "create", "another one", "--credit", "0.000001")
    operator("admin", "accounts", "create", "usual")
    invited = operator("admin", "accounts", "invite", "guest", initial_credit="2.5", port="9000")
    credited = operator("admin", "accounts", "credit", "me", "10")
    taken = operator("admin", "accounts", "credit", other["id"], "-0.000001")
    listed = operator.json("admin", "accounts", "list")
    table = operator("admin", "accounts", "list", prices="free").stdout
    public = operator("admin", "accounts", "invite", "me", public_url="https://tenuto.example.com")

    assert made.stdout.endswith("  me  1.500000 CNY\n")
    assert made.stderr == "To create a key for it: tenuto admin keys create --account me\n"
    assert ("me: 11.500000 CNY available\n", "") == (credited.stdout, credited.stderr)
    assert taken.stdout.endswith(": 0.000000 CNY available\n")
    amounts = {"me": "11.500000", "another one": "0.000000", "usual": "20.000000", "guest": "2.500000"}
    assert amounts == {line["name"]: line["available"] for line in listed}
    assert rows(operator("admin", "accounts", "list")) == listed
    assert ["id", "name", "state", "created"] == table.splitlines()[0].split("\t") and "0.000000" not in table
    assert invited.stdout.startswith("http://127.0.0.1:9000/invite#")
    assert public.stdout.startswith("https://tenuto.example.com/invite#")


def test_a_command_that_cannot_be_done_changes_nothing(operator: Operator) -> None:
    operator("admin", "accounts", "create", "me", "--credit", "0")
    operator("admin", "accounts", "suspend", "me")
    before = operator.json("admin", "accounts", "list"), operator.json("admin", "keys", "list")
    done = {line: operator("admin", *line.split(), engines="fake") for line in CANNOT_BE_DONE}

    assert not [line for line, said in CANNOT_BE_DONE.items() if said not in told(done[line])]
    assert {1} == {each.returncode for each in done.values()}
    assert before == (operator.json("admin", "accounts", "list"), operator.json("admin", "keys", "list"))


def test_a_key_is_shown_once_and_stdout_holds_nothing_else(operator: Operator, database_url: str) -> None:
    """`KEY=$(tenuto admin keys create …)` works; the list has prefix and last four characters only. A damaged
    restriction is listed as one, and breaks no list."""
    operator.settings.update(database=database_url, engines="fake")
    operator("admin", "accounts", "create", "me")
    words = ("keys", "create", "--account", "me", "--models", "fake/speech")
    made = operator("admin", *words, "--name", "laptop", "--expires", "30d")
    operator("admin", *words, "--name", "broken")
    database = open_database(database_url)
    database.write(lambda tx: tx.run("update api_key set models = '[oops' where name = 'broken'"))
    database.close()
    key = made.stdout.removesuffix("\n")
    whole, broken = operator.json("admin", "keys", "list")
    table = operator("admin", "keys", "list")

    assert key.startswith("tn_") and "shown only this once" in made.stderr
    assert key not in made.stderr + table.stdout
    assert ("me", "laptop", f"{key[:7]}…{key[-4:]}", ["fake/speech"], False, None) == tuple(
        whole[name] for name in ("account", "name", "key", "models", "damaged", "revoked")
    )
    assert whole["expires"] > "2026" and ([], True) == (broken["models"], broken["damaged"])
    assert ["fake/speech", "damaged"] == [line["models"] for line in rows(table)]


def test_revoking_rotating_and_expiring_hold_from_the_next_request_on(paid_service: RunningService) -> None:
    paid_service.make_key("rotating")
    words = ("admin", "keys", "create", "--account", "rotating")
    made = paid_service.command_json(*words)
    graced = paid_service.command_json("admin", "keys", "rotate", made["id"])
    asks = [status(paid_service, made["key"]), status(paid_service, graced["key"])]
    last = paid_service.command_json("admin", "keys", "rotate", made["id"], "--grace", "0s")
    asks += [status(paid_service, graced["key"]), status(paid_service, last["key"])]
    revoked = paid_service.command("admin", "keys", "revoke", made["id"])
    asks += [status(paid_service, made["key"]), status(paid_service, last["key"])]
    expired = paid_service.command_json(*words, "--expires", "0s")

    assert [200, 200, 401, 200, 401, 401] == asks
    assert f"{made['id']} is revoked\n" == revoked.stdout and 401 == status(paid_service, expired["key"])
    assert {made["id"]} == {graced["id"], last["id"]}


def status(service: RunningService, key: str) -> int:
    with service.client(key) as client:
        return client.get("/v1/models").status_code


def test_an_invitation_leads_into_the_studio(paid_service: RunningService) -> None:
    name, password = f"guest of {paid_service.port} & more", "a long enough password"
    old = paid_service.command("admin", "accounts", "invite", name).stdout.strip().partition("#")[2]
    url, _, token = paid_service.command_json("admin", "accounts", "invite", name)["link"].partition(
        "/invite#"
    )
    with httpx2.Client(base_url=url, headers={"Origin": url}, timeout=120) as browser:
        ended, entered = (
            browser.post("/web/invitations/accept", json={"token": each, "password": password})
            for each in (old, token)
        )
        paid_service.command("admin", "accounts", "suspend", name)
        out = browser.get("/web/keys").status_code
        paid_service.command("admin", "accounts", "unsuspend", name)
        login = browser.post("/web/login", json={"name": name, "password": password})

    assert paid_service.url == url
    assert (400, 201, 401, 200) == (ended.status_code, entered.status_code, out, login.status_code)


CONTENT = pcm16_wav(bytes(2 * 16_000), 16_000, 1)


def test_built_in_voices_are_listed_and_a_damaged_one_breaks_no_list(
    operator: Operator, database_url: str, tmp_path: Path
) -> None:
    """They are there before any service has run. What is no recording of a voice is refused in one line that
    says why, by the same rules as for uploads."""
    operator.settings.update(database=database_url)
    kinds = [voice["kind"] for voice in operator.json("admin", "voices", "list")]
    damaged = operator.json("admin", "voices", "list")[2]["id"]
    change = "update voice set languages = '[\"zh\"' where id = :id"
    with closing(open_database(database_url)) as database:
        database.write(lambda tx: tx.run(change, id=damaged))
    (tmp_path / "x.wav").write_bytes(b"no WAV")
    refused = operator("admin", "voices", "import", str(tmp_path / "x.wav"), "--name", "x")
    listed = {voice["id"]: voice for voice in operator.json("admin", "voices", "list")}
    table = {line["id"]: line["languages"] for line in rows(operator("admin", "voices", "list"))}

    assert ["shared", *["official"] * 11, *["emotion"] * 2] == kinds
    assert 14 == len(listed) and ([], True) == (listed[damaged]["languages"], listed[damaged]["damaged"])
    assert [damaged] == [voice_id for voice_id, languages in table.items() if languages == "damaged"]
    assert "it is not RIFF WAVE" in told(refused)


def test_an_imported_voice_is_everybodys(paid_service: RunningService, tmp_path: Path) -> None:
    """Every account sees and hears it at once, under a new id each time (R161, R175)."""
    file = tmp_path / "voice.wav"
    file.write_bytes(CONTENT)
    words = ("admin", "voices", "import", str(file), "--name", "远山", "--languages", "zh, en")
    first, second = (paid_service.command_json(*words)["id"] for _ in range(2))
    with paid_service.client(paid_service.make_key(credit="1")) as client:
        listed = {voice["voice_id"]: voice for voice in client.get("/v1/voices").json()["data"]}
        content = client.get(f"/v1/voices/{first}/content").content

    assert first != second and second in listed
    assert ("official", "远山", ["zh", "en"], None) == tuple(
        listed[first][name] for name in ("kind", "name", "languages", "provenance")
    )
    assert CONTENT == content
