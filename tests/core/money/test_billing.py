"""Money: exact arithmetic, two-phase entries, and never more than there is."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.world import World, at_once
from tenuto.config import Price
from tenuto.db.database import ConstraintFailed, Transaction
from tenuto.errors import InsufficientBalance, InvalidRequest, OperatorError, PriceInvalid
from tenuto.money import operations as billing
from tenuto.money.rules import MAX_CNY, charge_micros, cny, parse_cny

MICROS = st.integers(-MAX_CNY * 1_000_000, MAX_CNY * 1_000_000)


@given(MICROS)
def test_an_amount_goes_there_and_back(micros: int) -> None:
    """What is shown can be read, and is the same to the micro."""
    shown = cny(micros)

    assert micros == parse_cny(shown)
    assert Fraction(micros, 1_000_000) == Fraction(shown)
    assert 6 == len(shown.partition(".")[2])


@given(MICROS, st.integers(0, 6))
def test_an_amount_is_read_with_any_number_of_places(micros: int, places: int) -> None:
    """Trailing zeros may be left out."""
    rounded = micros - micros % 10 ** (6 - places)
    text = cny(rounded)
    short = text[: len(text) - 6 + places].rstrip(".")

    assert rounded == parse_cny(short)


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", ".5", "5.", "+5", " 5", "5\n", "1e3", "0x1", "1,5", "1_0", "NaN", "Infinity", "٣", "--1"),
        *("0.0000001", "1000000000.000001", "-1000000001", "9999999999", "1" * 5000, "0.1.2"),
    ],
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    """Nothing is guessed, nothing rounded."""
    with pytest.raises(InvalidRequest):
        parse_cny(text)


@given(st.integers(0, 7_200_000), st.integers(0, 10**7), st.integers(0, 10**10))
def test_the_charge_by_the_minute_is_exact(duration_ms: int, price_micros: int, hold_micros: int) -> None:
    """ceil(duration_ms × price / 60,000) on integers, never above the hold (P3)."""
    exact = ceil(Fraction(duration_ms * price_micros, 60_000))
    charged = charge_micros(Price("audio_minute", price_micros, hold_micros), duration_ms)

    assert min(exact, hold_micros) == charged


@pytest.mark.parametrize(
    ("duration_ms", "micros"),
    [
        (0, 0),
        (60_000, 50_000),
        (60_001, 50_001),
        (6, 5),
    ],
)
def test_the_contracts_price_by_the_minute(duration_ms: int, micros: int) -> None:
    """0.05 CNY a minute, the last part of a micro rounded up."""
    assert micros == charge_micros(Price("audio_minute", 50_000, 10_000_000), duration_ms)


def test_a_price_by_the_job(world: World) -> None:
    """Whatever its duration, never above the hold, nothing below 0; by the minute a duration is needed."""
    assert [7, 5] == [charge_micros(Price("job", 7, hold), None) for hold in (9, 5)]
    with pytest.raises(PriceInvalid, match="duration"):
        charge_micros(Price("audio_minute", 1, 1), None)
    with pytest.raises(PriceInvalid, match="below 0"):
        charge_micros(Price("job", -1, 1), None)


def test_hold_and_settle(world: World) -> None:
    """available → held → revenue, and the rest back; of a void, all. Each is an entry that sums to zero."""
    account_id = account(world, 100)
    hold(world, account_id, "job_a", 30)
    assert (70, 30) == world.balance(account_id)
    settle(world, "job_a", 12)

    assert (88, 0) == world.balance(account_id)
    assert [
        ("credit", 100, 0, 0, -100),
        ("hold", -30, 30, 0, 0),
        ("settle", 18, -30, 12, 0),
    ] == ledger(world)
    hold(world, account_id, "job_b", 88)
    assert (0, 88) == world.balance(account_id)
    void(world, "job_b")

    assert (88, 0) == world.balance(account_id)
    assert ("void", 88, -88, 0, 0) == ledger(world)[-1]
    clear(world)


def test_a_hold_beyond_the_balance_writes_nothing(world: World) -> None:
    """Not even an entry (P4); the refusal names what is needed and what is there."""
    account_id = account(world, 99)
    before = world.everything()
    with pytest.raises(InsufficientBalance) as refused:
        hold(world, account_id, "job_a", 6_000_000)

    assert before == world.everything()
    assert "needs 6.00 CNY, and the account has 0.000099 CNY available" in refused.value.message
    assert ("6.000000", "0.000099") == (refused.value.needed, refused.value.available)


def test_what_a_hold_would_be_refused_is_refused_before_it(world: World) -> None:
    """To the micro; what costs nothing needs no balance."""
    caller = world.caller(50)

    def check(amount_micros: int) -> None:
        world.read(lambda tx: billing.refuse_uncovered(tx, caller.account_id, amount_micros, "job"))

    check(0)
    check(50)
    with pytest.raises(InsufficientBalance):
        check(51)


def test_an_account_has_at_most_a_billion(world: World) -> None:
    """Available and held together, to the micro; what is beyond changes nothing, and spending makes room."""
    most = MAX_CNY * 1_000_000
    account_id = account(world, most)
    hold(world, account_id, "job_a", 30)
    before = world.everything()
    for beyond in (1, most):
        with pytest.raises(OperatorError, match=f"at most {MAX_CNY} CNY"):
            world.credit(account_id, beyond)
        assert before == world.everything()
    settle(world, "job_a", 12)
    world.credit(account_id, 12)

    assert (most, 0) == world.balance(account_id)
    clear(world)


@pytest.mark.parametrize("first", ["settle", "void"])
@pytest.mark.parametrize("second", ["settle", "void"])
def test_the_database_allows_one_resolution(world: World, first: str, second: str) -> None:
    """A second settlement or void is refused by an index, and moves no money (P3)."""
    account_id = account(world, 100)
    hold(world, account_id, "job_a", 10)
    hold(world, account_id, "job_b", 10)
    resolve = {"settle": lambda: settle(world, "job_a", 4), "void": lambda: void(world, "job_a")}
    resolve[first]()
    before = world.everything()
    with pytest.raises(ConstraintFailed):
        resolve[second]()

    assert before == world.everything()
    clear(world)


@pytest.mark.parametrize("amount", [0, 10])
def test_the_database_allows_one_hold(world: World, amount: int) -> None:
    """Of any amount (P3)."""
    account_id = account(world, 100)
    hold(world, account_id, "job_a", amount)
    before = world.everything()
    with pytest.raises(ConstraintFailed):
        hold(world, account_id, "job_a", amount)

    assert before == world.everything()
    clear(world)


def test_the_database_itself_refuses_what_must_not_be(world: World) -> None:
    """A negative balance, an entry that does not sum to zero."""
    account_id = account(world, 10)
    broken = (
        "update account set available_micros = -1",
        "update account set held_micros = -1",
        f"""insert into entry (id, type, account_id, available_micros, held_micros, revenue_micros,
            funding_micros, created_at) values ('entry_x', 'credit', '{account_id}', 1, 0, 0, 0, 1)""",
    )
    for statement in broken:
        with pytest.raises(ConstraintFailed):
            world.run(statement)


@pytest.mark.parametrize("charge", [-1, 31])
def test_a_charge_beyond_the_hold_is_a_bug(world: World, charge: int) -> None:
    """It is refused before anything is written (P3)."""
    account_id = account(world, 100)
    hold(world, account_id, "job_a", 30)
    before = world.everything()
    with pytest.raises(AssertionError):
        settle(world, "job_a", charge)

    assert before == world.everything()
    clear(world)


def test_amounts_of_nothing_write_entries_and_lock_no_account(world: World) -> None:
    """While another transaction holds the account's row, a free job is accepted and ended."""
    account_id = account(world, 100)

    def with_the_row_locked() -> None:
        if world.database.dialect == "sqlite":
            free_job()
            return

        def lock(tx: Transaction) -> None:
            tx.run("update account set held_micros = held_micros where id = :id", id=account_id)
            free_job()

        world.write(lock)

    def free_job() -> None:
        for number, end in enumerate(("settle", "void")):
            hold(world, account_id, f"job_{number}", 0)
            settle(world, f"job_{number}", 0) if end == "settle" else void(world, f"job_{number}")

    with_the_row_locked()

    assert (100, 0) == world.balance(account_id)
    assert ["credit", "hold", "settle", "hold", "void"] == [line[0] for line in ledger(world)]
    clear(world)


def test_credit_and_taking_it_back(world: World) -> None:
    """A negative credit takes what is available and no hold; an amount of 0 says that it changes nothing."""
    account_id = account(world, 100)
    hold(world, account_id, "job_a", 60)
    world.credit(account_id, -40)

    assert (0, 60) == world.balance(account_id)
    assert ("adjust", -40, 0, 0, 40) == ledger(world)[-1]
    before = world.everything()
    for amount in (-1, 0):
        with pytest.raises(OperatorError):
            world.credit(account_id, amount)
    with pytest.raises(OperatorError):
        world.credit("account_0", 1)
    assert before == world.everything()
    clear(world)


def test_parallel_holds_settlements_and_credits_lose_nothing(world: World) -> None:
    """Sixteen threads on one account: every micro is where its entries say."""
    account_id = account(world, 1000)

    def work(number: int) -> int:
        accepted = 0
        for turn in range(6):
            job_id = f"job_{number}_{turn}"
            try:
                hold(world, account_id, job_id, 70)
            except InsufficientBalance:
                world.credit(account_id, 5)
                continue
            accepted += 1
            settle(world, job_id, 33) if turn % 2 else void(world, job_id)
        return accepted

    answers = at_once(16, work)
    spent = world.row("select cast(sum(revenue_micros) as bigint) as spent from entry")["spent"]
    given = -world.row("select cast(sum(funding_micros) as bigint) as given from entry")["given"]

    assert all(isinstance(answer, int) for answer in answers), answers
    assert spent > 0
    assert (given - spent, 0) == world.balance(account_id)
    clear(world)


# --- helpers --------------------------------------------------------------------------------------


def account(world: World, micros: int) -> str:
    return world.caller(micros).account_id


def hold(world: World, account_id: str, job_id: str, amount: int) -> None:
    world.write(
        lambda tx: billing.hold(
            tx,
            world.ids,
            account_id=account_id,
            job_id=job_id,
            amount_micros=amount,
            now_ms=world.now_ms,
        ).check()
    )


def settle(world: World, job_id: str, charge: int) -> None:
    world.write(
        lambda tx: billing.settle(tx, world.ids, job_id=job_id, charge_micros=charge, now_ms=world.now_ms)
    )


def void(world: World, job_id: str) -> None:
    world.write(lambda tx: billing.void(tx, world.ids, job_id=job_id, now_ms=world.now_ms))


def ledger(world: World) -> list[tuple[object, ...]]:
    rows = world.all(
        "select type, available_micros, held_micros, revenue_micros, funding_micros from entry order by id"
    )
    return [tuple(row.values()) for row in rows]


def clear(world: World) -> None:
    """These holds belong to no job, which the audit at the end would find: look at the sums, then go."""
    found = [finding for finding in world.findings() if "sums of its entries" in finding or "zero" in finding]
    assert [] == found
    world.run("delete from entry")
    world.run("update account set available_micros = 0, held_micros = 0")
