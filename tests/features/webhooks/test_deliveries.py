"""What becomes of messages over days, and who goes first: the operations on both databases."""

import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from servers.processes import until
from servers.receiver import Message, Receiver, plainly
from servers.rig import Rig
from servers.speed import HANG_S, assert_within
from servers.world import METERED, World, wait_until_somebody_waits
from tenuto.account.caller import Caller
from tenuto.db.sql import statements
from tenuto.errors import InvalidRequest, NotFound
from tenuto.features.webhooks import http_post, rules
from tenuto.features.webhooks import operations as webhooks
from tenuto.features.webhooks.delivery_loop import DeliveryLoop
from tenuto.features.webhooks.delivery_threads import THREADS_IN_COMMON, THREADS_OF_ACCOUNT
from tenuto.features.webhooks.http_post import Answer
from tenuto.features.webhooks.operations import Outcome, Outgoing
from tenuto.features.webhooks.rules import HOUR_MS

EVENTS = ["job.succeeded", "job.failed", "job.recovery_required"]
SENDER = "worker_that_sends"
GUIDE = Path(__file__).parents[3] / "docs" / "operations" / "backup.md"


def made(world: World, caller: Caller, url: str = "https://a.example/") -> str:
    """A webhook for all that a job may come to."""

    def create(tx: Any) -> str:
        webhook = webhooks.create(
            tx,
            caller,
            webhook_id=world.ids.new("webhook"),
            secret=rules.secret_of(bytes(rules.SECRET_BYTES)),
            url=url,
            events=EVENTS,
            description="",
            now_ms=world.now_ms,
        )
        return webhook.id

    return world.write(create)


def sent_a_test(world: World, caller: Caller, webhook_id: str) -> None:
    """A message that is due now."""
    delivery_id = world.ids.new("delivery")
    world.write(
        lambda tx: webhooks.test(tx, caller, webhook_id, delivery_id=delivery_id, now_ms=world.now_ms)
    )


def make(world: World, sender: str = SENDER) -> tuple[int, bool]:
    """Make the messages of what has happened; returns of how many events, and whether it may."""
    made, count, is_sender = world.write(
        lambda tx: webhooks.make_deliveries(tx, world.ids, sender, now_ms=world.now_ms)
    )
    world.write(lambda tx: webhooks.end_surplus(tx, made, now_ms=world.now_ms))
    return count, is_sender


class Sender:
    """The duty of a worker that sends to any address, in its thread."""

    def __init__(self, rig: Rig) -> None:
        context = replace(rig.context, settings=replace(rig.context.settings, features={"webhooks": "any"}))
        self._stopping = threading.Event()
        sender = DeliveryLoop(context, self._stopping, trusts_clock=rig.heartbeat.trusts_clock)
        self.threads = sender.threads
        self._thread = threading.Thread(target=sender.run, daemon=True)
        self.start = self._thread.start

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def become_sender(world: World, sender: str = SENDER) -> None:
    holder, beat = world.write(webhooks.observe)
    assert world.write(lambda tx: webhooks.hold(tx, sender, before=holder, beat=beat))


def due(world: World, limit: int = 200) -> list[Outgoing]:
    """What would be sent now first to each webhook, to eight of an account at most."""

    def look(tx: Any) -> list[Outgoing]:
        chosen = webhooks.due(tx, of_account=THREADS_OF_ACCOUNT, limit=limit, now_ms=world.now_ms)
        return [
            outgoing
            for one in chosen
            for outgoing in webhooks.outgoing(tx, one.webhook_id, limit=1, now_ms=world.now_ms)
        ]

    return world.read(look)


def answer(world: World, outgoing: Outgoing, status: int | None) -> str | None:
    """What the server says to a message, recorded."""
    error = None if status else "no answer in time"
    outcome = Outcome(outgoing, Answer(status, error), world.now_ms)
    return world.write(lambda tx: webhooks.record(tx, [outcome])).get(outgoing.webhook_id)


def test_three_days_of_failures_disable_a_webhook_and_say_so(world: World) -> None:
    """Ten attempts by the schedule, then it is disabled with the reason; enabled, it is sent what waited."""
    caller = world.caller()
    webhook_id = made(world, caller)
    began_ms = world.now_ms
    sent_a_test(world, caller, webhook_id)
    reasons, attempts_at_h = [], []
    for _ in range(len(rules.PAUSES_MS) + 1):
        [outgoing] = due(world)
        attempts_at_h.append((world.now_ms - began_ms) / HOUR_MS)
        reasons.append(answer(world, outgoing, None))
        shown = world.read(lambda tx: webhooks.get(tx, caller, webhook_id))
        [delivery], _ = world.read(
            lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9)
        )
        assert [] == due(world)
        world.now_ms = max(world.now_ms, 1000 * (delivery.next_attempt_at or 0) + 1000)
    world.write(lambda tx: webhooks.redeliver(tx, caller, webhook_id, delivery.id, now_ms=world.now_ms))
    world.now_ms += 1
    waiting = due(world)
    world.write(lambda tx: webhooks.change(tx, caller, webhook_id, {"enabled": True}))
    [outgoing] = due(world)
    answer(world, outgoing, 200)
    again = world.read(lambda tx: webhooks.get(tx, caller, webhook_id))

    assert [None] * 9 + ["it has failed for three days"] == reasons
    assert attempts_at_h[8] < 72 <= attempts_at_h[9] < 77
    assert (False, "it has failed for three days") == (shown.enabled, shown.disabled_because)
    assert began_ms // 1000 == shown.failing_since
    assert ("failed", 10, None) == (delivery.state, delivery.attempts, delivery.next_attempt_at)
    assert [] == waiting
    assert (True, None, None) == (again.enabled, again.disabled_because, again.failing_since)


def test_a_success_between_failures_starts_the_three_days_again(world: World) -> None:
    """A server that answers now and then is not disabled, however long it has been unwell."""
    caller = world.caller()
    webhook_id = made(world, caller)
    for hours, statuses in ((0, [500]), (71, [500, 204]), (2, [500])):
        world.now_ms += hours * HOUR_MS
        for status in statuses:
            sent_a_test(world, caller, webhook_id)
            waiting = due(world)
            while waiting and waiting[0].attempts:
                answer(world, waiting[0], status)
                waiting = due(world)
            answer(world, waiting[0], status)
    shown = world.read(lambda tx: webhooks.get(tx, caller, webhook_id))

    assert (True, world.now_ms // 1000) == (shown.enabled, shown.failing_since)


def test_a_job_that_waits_for_the_operator_is_a_message(world: World) -> None:
    """`job.recovery_required`, only once, however often a page of events is read."""
    caller = world.caller()
    webhook_id = made(world, caller)
    become_sender(world)
    job_id = world.submit(caller, "key", model=METERED).job_id
    claim = world.claim()
    assert claim is not None and world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    while make(world)[0]:
        pass
    world.run("update webhook_sender set position = 0, job_id = '', sequence = 0")
    world.run("update webhook set since_position = 0")
    while make(world)[0]:
        pass
    [outgoing] = due(world)
    rows, _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9))
    body = json.loads(outgoing.body)

    assert ("job.recovery_required", job_id, "recovery_required") == (
        body["type"],
        body["data"]["job_id"],
        body["data"]["state"],
    )
    assert [outgoing.message_id] == [row.message_id for row in rows]


def test_a_dump_that_is_loaded_elsewhere_loses_no_message(world: World) -> None:
    """The guide's statements keep what had not been sent, and nothing is sent twice (P21)."""
    [script] = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    caller = world.caller()
    webhook_id = made(world, caller)
    become_sender(world)
    jobs = []
    for key in ("sent", "unsent"):
        jobs.append(world.done(caller, key))
        while key == "sent" and make(world)[0]:
            pass
    for statement in statements(script):
        world.run(statement)
    become_sender(world)
    while make(world)[0]:
        pass
    rows, _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9))

    assert sorted(jobs) == sorted(row.message_id.rpartition("_")[0] for row in rows)


def test_a_sender_that_was_replaced_makes_nothing(world: World) -> None:
    """Of two that believe that it is their turn one makes messages; an attempt is recorded once."""
    caller = world.caller()
    made(world, caller)
    become_sender(world)
    become_sender(world, "worker_that_took_over")
    job_id = world.done(caller, "key")
    old, new = make(world), make(world, "worker_that_took_over")
    [outgoing] = due(world)
    answer(world, outgoing, 204)
    late = answer(world, outgoing, 410)

    assert (0, False) == old and new[1] and new[0] > 0
    assert f"{job_id}_2" == outgoing.message_id
    assert late is None and [] == due(world)


def test_what_ends_before_anybody_has_sent_is_sent(world: World) -> None:
    """The first webhook says where the first sender begins, however late that comes."""
    caller = world.caller()
    is_wanted, jobs = world.read(webhooks.are_wanted), list[str]()
    for key in ("before it", "behind it"):
        jobs += [world.done(caller, key)]
        if key == "before it":
            made(world, caller)
    become_sender(world)
    make(world)

    assert (False, True) == (is_wanted, world.read(webhooks.are_wanted))
    assert [f"{jobs[1]}_2"] == [outgoing.message_id for outgoing in due(world)]


def test_a_sender_waits_for_the_first_webhook(world: World, rig: Rig) -> None:
    """It runs before anybody has one, and after the last was removed: the next one is informed."""
    receiver, caller = Receiver(), world.caller()
    sender = Sender(rig)
    sender.start()
    for number in (1, 2):
        webhook_id = made(world, caller, receiver.url)
        sent_a_test(world, caller, webhook_id)
        receiver.wait(number)
        world.write(lambda tx, one=webhook_id: webhooks.delete(tx, caller, one))  # type: ignore[misc]
    sender.stop()
    receiver.close()

    assert 2 == len({message.id for message in receiver.messages})


@pytest.mark.parametrize(("column", "text"), [("events", "["), ("models", "{}")])
def test_a_damaged_webhook_holds_up_no_other_message(world: World, column: str, text: str) -> None:
    """It receives nothing and is still listed; setting its events repairs it (P14)."""
    caller, other = world.caller(), world.caller()
    damaged, sound = made(world, caller), made(world, other)
    world.run(f"update webhook set {column} = :text where id = :id", text=text, id=damaged)
    become_sender(world)
    for one in (caller, other):
        world.done(one, "key")
    while make(world)[0]:
        pass
    informed = [outgoing.webhook_id for outgoing in due(world)]
    [listed] = world.read(lambda tx: webhooks.listed(tx, caller))
    changed = world.write(lambda tx: webhooks.change(tx, caller, damaged, {"events": EVENTS}))

    assert [sound] == informed
    assert (damaged, [] if column == "events" else EVENTS) == (listed.id, listed.events)
    assert EVENTS == changed.events


@pytest.mark.parametrize(
    "damage",
    [
        "update webhook set secret = 'whsec_x' where id = :id",
        "update webhook_delivery set body = cast(x'7b22ff227d' as text) where webhook_id = :id",
    ],
)
def test_a_message_that_cannot_be_sent_has_failed(world: World, rig: Rig, damage: str) -> None:
    """It is retried on schedule, not immediately; the messages of others are sent meanwhile (P14)."""
    if "cast" in damage and world.database.dialect != "sqlite":
        pytest.skip("PostgreSQL takes no such text; a page of it that is damaged is refused by its checksum")
    receiver, caller, other = Receiver(), world.caller(), world.caller()
    damaged = made(world, caller, receiver.url)
    sent_a_test(world, caller, damaged)
    world.run(damage, id=damaged)
    sent_a_test(world, other, made(world, other, receiver.url))
    sender = Sender(rig)

    def failed() -> bool:
        [row], _ = world.read(lambda tx: webhooks.deliveries(tx, caller, damaged, after=None, limit=9))
        return (row.state, row.attempts) == ("pending", 1) and "damaged" in (row.error or "")

    sender.start()
    receiver.wait(1)
    until(failed, HANG_S, "the attempt is recorded")
    sender.stop()
    receiver.close()

    assert 1 == len(receiver.messages)


def test_a_webhook_is_as_sound_as_the_newest_attempt_to_the_url_that_it_has(world: World) -> None:
    """Only a success ends failing, or that it is enabled after it was disabled; neither makes it sound."""
    caller = world.caller()
    webhook_id = made(world, caller)

    def soundness() -> tuple[bool, bool]:
        row = world.row("select is_sound, failing_since from webhook")
        return bool(row["is_sound"]), row["failing_since"] is not None

    def change(**changes: Any) -> tuple[bool, bool]:
        world.write(lambda tx: webhooks.change(tx, caller, webhook_id, changes))
        return soundness()

    def after(status: int) -> tuple[bool, bool]:
        sent_a_test(world, caller, webhook_id)
        answer(world, due(world)[-1], status)
        return soundness()

    states = [soundness(), after(500), change(description="x"), change(enabled=True), after(204)]
    sent_a_test(world, caller, webhook_id)
    [late] = due(world)
    states += [change(url="https://b.example/")]
    answer(world, late, 410)
    states += [soundness(), after(204), change(enabled=False), change(enabled=True), after(500)]
    states += [change(enabled=False), change(enabled=True)]
    new, failing, sound = (False, False), (False, True), (True, False)

    assert [new, failing, failing, failing, sound, new, new, sound, new, new, failing, failing, new] == states


def test_why_a_webhook_is_disabled_is_shown_until_it_is_enabled(world: World) -> None:
    """Another description does not take the reason away."""
    caller = world.caller()
    webhook_id = made(world, caller)
    sent_a_test(world, caller, webhook_id)
    answer(world, due(world)[0], 410)
    reasons = [
        world.write(lambda tx, one=one: webhooks.change(tx, caller, webhook_id, one)).disabled_because  # type: ignore[misc]
        for one in ({"description": "x"}, {"enabled": False}, {"enabled": True}, {"enabled": False})
    ]

    assert ["the server answered 410 Gone"] * 2 + [None] * 2 == reasons


def test_a_test_is_refused_where_it_would_wait(world: World) -> None:
    """Of a disabled webhook, and of one for which a hundred messages wait; P14."""
    caller = world.caller()
    crowded, disabled = made(world, caller), made(world, caller)
    for _ in range(rules.MAX_WAITING_FOR_TEST):
        sent_a_test(world, caller, crowded)
    world.write(lambda tx: webhooks.change(tx, caller, disabled, {"enabled": False}))
    faults = []
    for webhook_id in (crowded, disabled):
        with pytest.raises(InvalidRequest) as refused:
            sent_a_test(world, caller, webhook_id)
        faults += [fault.code for fault in refused.value.faults]

    assert ["too_many_waiting", "webhook_disabled"] == faults
    assert rules.MAX_WAITING_FOR_TEST == rows(world)


def test_a_clock_that_was_wrong_holds_up_no_message(world: World) -> None:
    """What was made or tried while it was a year ahead is sent once it is right, and then has its pause."""
    caller = world.caller()
    webhook_id = made(world, caller)
    right_ms = world.now_ms
    world.now_ms += 365 * 24 * HOUR_MS
    sent_a_test(world, caller, webhook_id)
    sent_a_test(world, caller, webhook_id)
    tried = due(world)[0]
    answer(world, tried, None)
    world.now_ms = right_ms
    first = due(world)
    for outgoing in first:
        answer(world, outgoing, None)
    paused = [one.delivery_id for one in due(world)]
    world.now_ms += rules.PAUSES_MS[1]

    assert 1 == len(first)
    assert [first[0].delivery_id] != paused
    assert 1 == len(due(world))


def test_a_clock_that_jumps_disables_no_webhook(world: World) -> None:
    """One failure, and another after a jump by four days, are not three days of failures."""
    caller = world.caller()
    webhook_id = made(world, caller)
    reasons = []
    for ahead_ms, trusts_clock in (
        (365 * 24 * HOUR_MS, False),
        (0, True),
        (96 * HOUR_MS, False),
        (73 * HOUR_MS, True),
    ):
        world.now_ms += ahead_ms
        sent_a_test(world, caller, webhook_id)
        [outgoing] = due(world)
        outcome = Outcome(outgoing, Answer(500), world.now_ms)
        record = partial(webhooks.record, outcomes=[outcome], trusts_clock=trusts_clock)
        reasons.append(world.write(record))
        world.now_ms -= 0 if trusts_clock else ahead_ms

    assert [{}, {}, {}, {webhook_id: "it has failed for three days"}] == reasons


def test_what_waits_too_long_is_forgotten(world: World) -> None:
    """A message that ended, and one that waits for a disabled webhook: after thirty days, not before."""
    caller = world.caller()
    ended, disabled = made(world, caller), made(world, caller)
    for webhook_id in (ended, disabled):
        sent_a_test(world, caller, webhook_id)
    answer(world, next(one for one in due(world) if one.webhook_id == ended), 204)
    world.write(lambda tx: webhooks.change(tx, caller, disabled, {"enabled": False}))
    counts = []
    for after_ms in (webhooks.RETENTION_MS, 1):
        world.now_ms += after_ms
        world.write(lambda tx: webhooks.forget(tx, now_ms=world.now_ms))
        counts.append(rows(world))

    assert [2, 0] == counts


def test_an_old_message_that_is_sent_again_keeps_its_attempts(world: World) -> None:
    """While it is listed, it can be sent again."""
    caller = world.caller()
    webhook_id = made(world, caller)
    sent_a_test(world, caller, webhook_id)
    world.now_ms += 48 * HOUR_MS
    answer(world, due(world)[0], 410)
    world.write(lambda tx: webhooks.change(tx, caller, webhook_id, {"enabled": True}))
    world.now_ms += webhooks.RETENTION_MS - HOUR_MS
    [listed], _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9))
    world.write(lambda tx: webhooks.redeliver(tx, caller, webhook_id, listed.id, now_ms=world.now_ms))
    world.now_ms += 1
    answer(world, due(world)[0], 500)
    world.write(lambda tx: webhooks.forget(tx, now_ms=world.now_ms))
    world.now_ms += rules.PAUSES_MS[0]

    assert [listed.id] == [one.delivery_id for one in due(world)]


def test_no_more_messages_wait_than_may(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are due longest have failed, and say why; P14."""
    monkeypatch.setattr(rules, "MAX_WAITING", 3)
    caller = world.caller()
    webhook_id = made(world, caller)
    become_sender(world)
    jobs = []
    for number in range(5):
        world.now_ms += 1000
        jobs.append(world.done(caller, f"key {number}"))
        make(world)
    listed, _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9))

    assert [f"{job_id}_2" for job_id in reversed(jobs)] == [one.message_id for one in listed]
    assert [("pending", None)] * 3 + [("failed", "more than 3 messages waited")] * 2 == [
        (one.state, one.error) for one in listed
    ]


def test_a_removed_webhook_is_gone_at_once_and_its_rows_follow(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages wait, its removal touches one row, and one transaction a bounded number; P14."""
    monkeypatch.setattr(webhooks, "ROWS_AT_ONCE", 10)
    caller = world.caller()
    ids = [made(world, caller) for _ in range(rules.MAX_WEBHOOKS)]
    for _ in range(25):
        sent_a_test(world, caller, ids[0])
    [waiting] = due(world)
    world.write(lambda tx: webhooks.delete(tx, caller, ids[0]))
    with pytest.raises(NotFound):
        sent_a_test(world, caller, ids[0])
    late = answer(world, waiting, 410)
    counts, shown = [rows(world)], world.read(lambda tx: webhooks.listed(tx, caller))
    for _ in range(2):
        world.write(webhooks.remove_rows)
        counts.append(rows(world))
    sender = Sender(rig)
    sender.start()
    until(lambda: not world.read(webhooks.has_removed), 60, "its rows are removed")
    sender.stop()

    assert late is None and [] == due(world)
    assert [25, 15, 5] == counts and 0 == rows(world)
    assert ids[1:] == [one.id for one in shown]
    assert made(world, caller) not in ids


def test_accounts_are_due_in_turns(world: World) -> None:
    """An account has twenty webhooks; eight of them are due, behind the first of every other account."""
    caller, other = world.caller(), world.caller()
    ids = [made(world, caller) for _ in range(rules.MAX_WEBHOOKS)]
    with pytest.raises(InvalidRequest):
        made(world, caller)
    for webhook_id in ids * 3:
        sent_a_test(world, caller, webhook_id)
    world.now_ms += 1000
    theirs = made(world, other)
    sent_a_test(world, other, theirs)
    waiting = [outgoing.webhook_id for outgoing in due(world)]

    assert THREADS_OF_ACCOUNT + 1 == len(set(waiting)) == len(waiting)
    assert theirs == waiting[1]
    assert theirs in [outgoing.webhook_id for outgoing in due(world, limit=2)]


def hang_everywhere(world: World, owners: list[Caller], ids: dict[str, list[str]]) -> None:
    """Another message to every webhook of the owners, which are enabled as if they were not."""
    for owner in owners:

        def send(tx: Any, owner: Caller = owner) -> None:
            for webhook_id in ids[owner.account_id]:
                webhooks.change(tx, owner, webhook_id, {"enabled": True})
                webhooks.test(
                    tx, owner, webhook_id, delivery_id=world.ids.new("delivery"), now_ms=world.now_ms
                )

        world.write(send)


@pytest.mark.measured
@pytest.mark.parametrize(("dialect", "answers_first"), [("sqlite", False), ("postgresql", True)])
def test_servers_of_fifty_accounts_that_hang_hold_up_nobody(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch, answers_first: bool
) -> None:
    """Eight webhooks each, whose servers never answer, or answer once and then hang."""
    monkeypatch.setattr(http_post, "TIMEOUT_S", 120.0)
    may_answer, sound = threading.Event(), Receiver()
    hanging = Receiver(lambda *_: void(may_answer.wait(120)))
    owners, victim = [world.caller() for _ in range(50)], world.caller()
    ids = {one.account_id: [made(world, one, hanging.url) for _ in range(8)] for one in owners}
    if answers_first:
        hang_everywhere(world, owners, ids)
        while waiting := due(world):
            world.write(
                lambda tx, waiting=waiting: webhooks.record(  # type: ignore[misc]
                    tx, [Outcome(one, Answer(204), world.now_ms) for one in waiting]
                )
            )
        assert 400 == world.row("select count(*) as n from webhook where is_sound = 1")["n"]
    sender = Sender(rig)
    sender.start()
    for some, most in ((owners[:4], THREADS_IN_COMMON), (owners[4:], THREADS_IN_COMMON + 46)):
        hang_everywhere(world, some, ids)
        until(lambda most=most: len(sender.threads.in_progress) == most, 60, f"{most} are on their way")  # type: ignore[misc]
    webhook_id, took_s = made(world, victim, sound.url), []
    for number in range(1, 4):
        began = time.monotonic()
        sent_a_test(world, victim, webhook_id)
        hang_everywhere(world, owners[:2], ids)
        sound.wait(number, HANG_S)
        took_s.append(time.monotonic() - began)
    may_answer.set()
    sender.stop()
    hanging.close()
    sound.close()

    assert_within(15, *took_s)


def test_a_message_that_fails_while_the_sender_looks_has_its_pause(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look still sees it as due after its failure was recorded: it is not sent again at once."""
    may_answer, looked, look = threading.Event(), threading.Event(), webhooks.outgoing

    def refuse(handler: Any, message: Message) -> None:
        may_answer.wait(60)
        plainly(500)(handler, message)

    failing, sound = Receiver(refuse), Receiver()
    sender = Sender(rig)

    def look_long(tx: Any, webhook_id: str, **limits: int) -> list[Outgoing]:
        found = look(tx, webhook_id, **limits)
        if failing.messages and not looked.is_set():
            may_answer.set()
            until(lambda: not sender.threads.in_progress, 60, "the message has failed")
            looked.set()
        return found

    monkeypatch.setattr(webhooks, "outgoing", look_long)
    caller = world.caller()
    sent_a_test(world, caller, made(world, caller, failing.url))
    # Another thread may look for messages only for such a webhook.
    world.run("update webhook set is_sound = 1")
    sender.start()
    assert looked.wait(60)
    sent_a_test(world, caller, made(world, caller, sound.url))
    sound.wait(1)
    sender.stop()
    failing.close()
    sound.close()

    assert 1 == len(failing.messages)


def test_messages_are_sent_side_by_side_and_numbered(world: World, rig: Rig) -> None:
    """A server that answered once is sent several at a time, over connections that stay open."""
    caller, together = world.caller(), threading.Barrier(THREADS_OF_ACCOUNT)
    connections, first = set[object](), threading.Event()

    def answering(handler: Any, message: Message) -> None:
        connections.add(handler.client_address)
        if first.is_set() and len(receiver.messages) <= 1 + THREADS_OF_ACCOUNT:
            together.wait(60)
        plainly(204)(handler, message)
        first.set()

    receiver = Receiver(answering)
    webhook_id = made(world, caller, receiver.url)
    sent_a_test(world, caller, webhook_id)
    sender = Sender(rig)
    sender.start()
    until(lambda: world.row("select is_sound from webhook")["is_sound"] == 1, 60, "it has answered")

    def many(tx: Any) -> None:
        for _ in range(98):
            delivery_id = world.ids.new("delivery")
            webhooks.test(tx, caller, webhook_id, delivery_id=delivery_id, now_ms=world.now_ms)

    world.write(many)
    messages = receiver.wait(99)
    until(lambda: not sender.threads.in_progress, 60, "all are recorded")
    sender.stop()
    receiver.close()
    listed, _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=200))
    sequences = [json.loads(message.body)["sequence"] for message in messages]

    assert list(range(1, 100)) == sorted(sequences)
    assert {"delivered"} == {one.state for one in listed}
    assert list(range(99, 0, -1)) == [one.sequence for one in listed]
    assert len(connections) < 50


def test_an_outcome_that_cannot_be_recorded_costs_no_other_its_record(world: World, rig: Rig) -> None:
    """Nor is its message sent again all the time; P14."""
    caller, receiver = world.caller(), Receiver()
    webhook_id = made(world, caller, receiver.url)
    for _ in range(5):
        sent_a_test(world, caller, webhook_id)
    stubborn = due(world)[0].delivery_id
    if world.database.dialect == "sqlite":
        refusal = f"""create trigger stubborn before update on webhook_delivery when old.id = '{stubborn}'
                      begin select raise(abort, 'no'); end"""
    else:
        refusal = f"""alter table webhook_delivery add constraint stubborn
                      check (id <> '{stubborn}' or attempts = 0)"""
    world.run(refusal)
    sender = Sender(rig)
    sender.start()

    def states() -> list[str]:
        listed, _ = world.read(lambda tx: webhooks.deliveries(tx, caller, webhook_id, after=None, limit=9))
        return [one.state for one in listed]

    until(lambda: states() == ["delivered"] * 4 + ["pending"], 60, "the others are recorded")
    sent_a_test(world, caller, webhook_id)
    until(lambda: states()[0] == "delivered", 60, "a later one is recorded")
    sender.stop()
    receiver.close()

    assert 6 == len(receiver.messages)


def test_a_number_is_not_used_twice_and_none_is_left_out(world: World) -> None:
    """However the messages were made, and however often a page of events is read."""
    caller, other = world.caller(), world.caller()
    mine, theirs = made(world, caller), made(world, other)
    become_sender(world)
    for number in range(3):
        for one in (caller, other):
            world.done(one, f"key {number}")
        while make(world)[0]:
            pass
        sent_a_test(world, caller, mine)
        world.run("update webhook_sender set position = 0, job_id = '', sequence = 0")
        world.run("update webhook set since_position = 0")
    numbers = [
        [
            row["sequence"]
            for row in world.read(
                lambda tx, one=webhook_id: tx.all(  # type: ignore[misc]
                    "select sequence from webhook_delivery where webhook_id = :id order by sequence", id=one
                )
            )
        ]
        for webhook_id in (mine, theirs)
    ]

    assert [[1, 2, 3, 4, 5, 6], [1, 2, 3]] == numbers


def rows(world: World) -> int:
    """Messages in the database."""
    count: int = world.row("select count(*) as n from webhook_delivery")["n"]
    return count


def void(_: object) -> None:
    """Nothing is answered."""


def during(world: World, first: Callable[[Any], object], second: Callable[[Any], object]) -> None:
    """Two transactions: the second has begun, and waits for a row of the first, before the first commits."""

    def hold(tx: Any) -> None:
        first(tx)
        has_written.set()
        assert may_commit.wait(HANG_S)

    has_written, may_commit = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(world.write, hold)
        assert has_written.wait(HANG_S)
        waiting = threads.submit(world.write, second)
        wait_until_somebody_waits(world)
        may_commit.set()
        holding.result(HANG_S)
        waiting.result(HANG_S)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_two_changes_at_once_are_both_kept(world: World) -> None:
    """Each sets only the fields that it names."""
    caller = world.caller()
    webhook_id = made(world, caller)
    during(
        world,
        lambda tx: webhooks.change(tx, caller, webhook_id, {"url": "https://new.example/"}),
        lambda tx: webhooks.change(tx, caller, webhook_id, {"description": "new"}),
    )
    shown = world.read(lambda tx: webhooks.get(tx, caller, webhook_id))

    assert ("https://new.example/", EVENTS, "new", True) == (
        shown.url,
        shown.events,
        shown.description,
        shown.enabled,
    )


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_change_of_something_else_enables_nothing(world: World) -> None:
    """410 disables the webhook while its owner changes the description."""
    caller = world.caller()
    webhook_id = made(world, caller)
    sent_a_test(world, caller, webhook_id)
    [outgoing] = due(world)
    during(
        world,
        lambda tx: webhooks.record(tx, [Outcome(outgoing, Answer(410), world.now_ms)]),
        lambda tx: webhooks.change(tx, caller, webhook_id, {"description": "new"}),
    )
    shown = world.read(lambda tx: webhooks.get(tx, caller, webhook_id))

    assert (False, "the server answered 410 Gone", "new") == (
        shown.enabled,
        shown.disabled_because,
        shown.description,
    )
