"""Keys and accounts: what a key is, where it is stored, when it is refused, and what it may use."""

import hashlib
import re
import unicodedata

import pytest

from servers.world import TABLES, World
from tenuto.account import key_rules
from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import InvalidApiKey, InvalidRequest, NotFound, OperatorError, RateLimited

HOUR_MS = 3_600_000


def test_the_form_of_a_key() -> None:
    """`tn_`, 43 base62 characters of secret, 6 of checksum; two keys differ."""
    zeros = key_rules.make_key(lambda below: 0)
    highest = key_rules.make_key(lambda below: below - 1)

    assert re.fullmatch(r"tn_0{43}[0-9A-Za-z]{6}", zeros)
    assert re.fullmatch(r"tn_z{43}[0-9A-Za-z]{6}", highest)
    assert [True, True] == [key_rules.is_well_formed(zeros), key_rules.is_well_formed(highest)]


def test_every_wrong_character_is_noticed() -> None:
    """The checksum refuses each key in which one character was changed, or two were swapped."""
    numbers = iter(range(1000))
    key = key_rules.make_key(lambda below: next(numbers) % below)
    changed = [key[:at] + ("a" if key[at] != "a" else "b") + key[at + 1 :] for at in range(len(key))]
    swapped = [
        key[:at] + key[at + 1] + key[at] + key[at + 2 :] for at in range(3, 45) if key[at] != key[at + 1]
    ]
    odd = [
        "",
        "tn_",
        key[:-1],
        key + "0",
        key + "\n",
        " " + key,
        key.upper(),
        "sk_" + key[3:],
        "tn_" + "é" * 49,
    ]

    assert [] == [wrong for wrong in [*changed, *swapped, *odd] if key_rules.is_well_formed(wrong)]


def test_the_key_is_nowhere_in_the_database(world: World) -> None:
    """Its SHA-256, its prefix and its last four characters are; nothing else of it (P16)."""
    _, key = make(world)
    everything = "".join(line for table in world.everything().values() for line in table)
    rows = world.all("select sha256, prefix, last_four from api_key_secret")

    assert "api_key_secret" in TABLES
    assert [(hashlib.sha256(key.encode()).hexdigest(), key[:7], key[-4:])] == [
        tuple(row.values()) for row in rows
    ]
    assert [] == [at for at in range(len(key) - 8) if key[at : at + 8] in everything]


def test_a_key_tells_who_calls(world: World) -> None:
    """The key's id and its account's."""
    account_id = account(world)
    key_id, key = make(world, account_id)

    assert Caller(key_id, account_id, None, None) == authenticate(world, key)


def test_an_unknown_key_is_refused_like_a_malformed_one(world: World) -> None:
    """The error never says what is wrong with a key."""
    unknown = key_rules.make_key(lambda below: 7)
    messages = {refusal(world, key) for key in (unknown, "", "tn_x", "tn_" + "é" * 49, unknown[:-1] + "!")}

    assert 1 == len(messages)


def test_a_key_expires(world: World) -> None:
    """At the millisecond that was said."""
    _, key = make(world, expires_at=world.now_ms + HOUR_MS)
    world.now_ms += HOUR_MS - 1
    authenticate(world, key)
    world.now_ms += 1

    assert refusal(world, key)


def test_a_revoked_key_is_refused_from_the_next_request_on(world: World) -> None:
    """Its siblings work on; revoking again is no error, an unknown id is one."""
    account_id = account(world)
    key_id, key = make(world, account_id)
    _, other = make(world, account_id)
    for _ in range(2):
        world.write(lambda tx: accounts.revoke_key(tx, key_id, now_ms=world.now_ms))

    assert refusal(world, key)
    assert account_id == authenticate(world, other).account_id
    with pytest.raises(NotFound):
        world.write(lambda tx: accounts.revoke_key(tx, "key_0", now_ms=world.now_ms))


def test_the_first_revocation_is_the_one_that_counts(world: World) -> None:
    """When it was is not overwritten."""
    key_id, _ = make(world)
    first = world.now_ms
    world.write(lambda tx: accounts.revoke_key(tx, key_id, now_ms=world.now_ms))
    world.write(lambda tx: accounts.revoke_key(tx, key_id, now_ms=world.now_ms + 1))

    assert first == world.row("select revoked_at from api_key where id = :id", id=key_id)["revoked_at"]


@pytest.mark.parametrize("grace_ms", [0, HOUR_MS])
def test_a_rotated_key_keeps_its_id(world: World, grace_ms: int) -> None:
    """The new secret works at once, the old one for the grace and no longer."""
    key_id, old = make(world)
    new = rotate(world, key_id, grace_ms)
    if grace_ms:
        world.now_ms += grace_ms - 1
        assert key_id == authenticate(world, old).key_id
        world.now_ms += 1

    assert key_id == authenticate(world, new).key_id
    assert refusal(world, old)


def test_a_second_rotation_lengthens_no_grace(world: World) -> None:
    """A secret that ends in an hour still ends then, and a leaked one can be cut off at once."""
    key_id, first = make(world)
    second = rotate(world, key_id, HOUR_MS)
    third = rotate(world, key_id, 10 * HOUR_MS)
    world.now_ms += HOUR_MS

    assert refusal(world, first)
    authenticate(world, second)
    fourth = rotate(world, key_id, 0)
    assert refusal(world, second)
    assert refusal(world, third)
    authenticate(world, fourth)


def test_only_a_living_key_is_rotated(world: World) -> None:
    """A key that was revoked or has expired does not come back by rotation: each new secret is refused."""
    account_id = account(world)
    key_id, _ = make(world, account_id)
    expired, _ = make(world, account_id, expires_at=world.now_ms + HOUR_MS)
    rotate(world, expired, 0)
    world.write(lambda tx: accounts.revoke_key(tx, key_id, now_ms=world.now_ms))
    world.now_ms += HOUR_MS

    for wrong in (key_id, expired, "key_0"):
        with pytest.raises(OperatorError):
            rotate(world, wrong, 0)


def test_a_suspended_account_is_refused(world: World) -> None:
    """All its keys, until it is no longer suspended."""
    account_id = account(world)
    _, key = make(world, account_id)
    world.run("update account set suspended_at = :now where id = :id", now=world.now_ms, id=account_id)
    assert refusal(world, key)

    world.run("update account set suspended_at = null where id = :id", id=account_id)
    assert account_id == authenticate(world, key).account_id


@pytest.mark.parametrize(
    ("of_account", "of_key", "usable"),
    [
        (None, None, {"a", "b", "c"}),
        (["a", "b"], None, {"a", "b"}),
        (None, ["b", "c"], {"b", "c"}),
        (["a", "b"], ["b", "c"], {"b"}),
        (["a"], ["b"], set()),
        ([], None, set()),
        (None, [], set()),
    ],
)
def test_a_key_may_use_what_account_and_key_both_allow(
    world: World, of_account: list[str] | None, of_key: list[str] | None, usable: set[str]
) -> None:
    """The intersection, as it is at this request (P13)."""
    account_id = account(world)
    _, key = make(world, account_id, models=of_key)
    restrict(world, account_id, of_account)
    caller = authenticate(world, key)

    assert usable == {model for model in ("a", "b", "c") if caller.may_use(model)}
    restrict(world, account_id, None)
    again = authenticate(world, key)
    assert (set("abc") if of_key is None else {*of_key}) == {m for m in "abc" if again.may_use(m)}


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("Jos\u00e9", "Jose\u0301"),
        ("ann", "Ann"),
        ("bank", "\uff22\uff41\uff4e\uff4b"),
        ("strasse", "Stra\u00dfe"),
    ],
)
def test_names_that_would_be_confused_are_one(world: World, name: str, alike: str) -> None:
    """Composed or not, in either case or width: the operator credits by name.

    The text is kept as it was given, composed.
    """
    account_id = world.write(
        lambda tx: accounts.create_account(tx, world.ids, name=alike, now_ms=world.now_ms)
    )
    stored = world.row("select name from account where id = :id", id=account_id)
    with pytest.raises(OperatorError, match="already"):
        world.write(lambda tx: accounts.create_account(tx, world.ids, name=name, now_ms=world.now_ms))
    found = world.read(lambda tx: accounts.find_account(tx, name)).id

    assert unicodedata.normalize("NFC", alike) == stored["name"]
    assert account_id == found


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\0", "x" * 81, "\u202e"])
def test_a_name_that_cannot_be_read_is_refused(world: World, name: str) -> None:
    """Of accounts and of keys; nothing is written."""
    account_id = account(world)
    before = world.everything()
    with pytest.raises(InvalidRequest):
        make(world, account_id, name=name)
    with pytest.raises(InvalidRequest):
        account(world, name)

    assert before == world.everything()


def test_an_id_is_never_taken_for_another_accounts_name(world: World) -> None:
    """Nobody registers under another account's id, so that the credit that an operator gives by id would be
    theirs; if an earlier version allowed it, the id decides."""
    account_id, other = account(world), account(world, "other")
    with pytest.raises(InvalidRequest, match="look like an account's id"):
        account(world, account_id)
    world.run("update account set name = :name where id = :id", name=account_id, id=other)

    assert account_id == world.read(lambda tx: accounts.find_account(tx, account_id)).id


def test_keys_are_listed_without_their_secret(world: World) -> None:
    """One line a key, rotated or not, of one account or of all."""
    first, second = account(world, "first"), account(world, "second")
    key_id, _ = make(world, first)
    make(world, second)
    world.now_ms += 1
    new = rotate(world, key_id, HOUR_MS)
    (shown,) = world.read(lambda tx: accounts.list_keys(tx, first))

    assert (key_id, "first", new[:7], new[-4:]) == (
        shown.id,
        shown.account_name,
        shown.prefix,
        shown.last_four,
    )
    assert 2 == len(world.read(accounts.list_keys))
    assert ["first", "second"] == [row.name for row in world.read(accounts.list_accounts)]


def test_a_key_has_only_so_many_secrets(world: World) -> None:
    """One more is refused by the limit's name, which metrics count (P14)."""
    account_id = account(world)
    key_id, _ = make(world, account_id)

    def rotate_own(tx: Transaction) -> None:
        secret = key_rules.make_key(lambda below: 0)
        accounts.rotate_own_key(
            tx,
            key_id,
            account_id=account_id,
            secret=secret,
            grace_ms=HOUR_MS,
            secret_limit=1,
            now_ms=world.now_ms,
        )

    with pytest.raises(RateLimited) as caught:
        world.write(rotate_own)
    assert ("live_keys", 120) == (caught.value.limit, caught.value.retry_after_s)


def account(world: World, name: str = "account") -> str:
    return world.write(lambda tx: accounts.create_account(tx, world.ids, name=name, now_ms=world.now_ms))


def make(
    world: World,
    account_id: str | None = None,
    *,
    models: list[str] | None = None,
    expires_at: int | None = None,
    name: str = "key",
) -> tuple[str, str]:
    """A key's id and the key, of a new account unless one is named."""
    owner = account_id or account(world)
    return world.write(
        lambda tx: accounts.create_key(
            tx,
            world.ids,
            account_id=owner,
            name=name,
            models=models,
            expires_at=expires_at,
            now_ms=world.now_ms,
        )
    )


def rotate(world: World, key_id: str, grace_ms: int) -> str:
    return world.write(lambda tx: accounts.rotate_key(tx, key_id, grace_ms=grace_ms, now_ms=world.now_ms))


def restrict(world: World, account_id: str, models: list[str] | None) -> None:
    world.write(lambda tx: accounts.restrict_account(tx, account_id=account_id, models=models))


def authenticate(world: World, key: str) -> Caller:
    return world.read(lambda tx: accounts.authenticate(tx, key, now_ms=world.now_ms))


def refusal(world: World, key: str) -> str:
    """What a refused key is told."""
    with pytest.raises(InvalidApiKey) as caught:
        authenticate(world, key)
    return str(caught.value)
