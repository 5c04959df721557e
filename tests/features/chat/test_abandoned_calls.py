"""The paid call of a process that has died."""

from servers.rig import Rig
from servers.world import World
from tenuto.config import Settings
from tenuto.features.chat import priced_calls as model_calls
from tenuto.features.chat.duties import ABANDONED_CALL_S, CALLS_S
from tenuto.features.chat.rows import CallRow
from tenuto.features.chat.settings import ChatSettings
from tenuto.features.history.rows import Used
from tenuto.worker.duties import Upkeep


def rounds(upkeep: Upkeep, start: float, end: float, step: float = 5.0) -> None:
    """Rounds from `start` to `end` monotonic seconds, both included."""
    now = start
    while now < end:
        upkeep.do_due(now)
        now += step
    upkeep.do_due(end)


def test_the_call_of_a_dead_process_is_released(world: World, rig: Rig) -> None:
    """After the longest that a call lasts, seen by itself, and not earlier; its late end changes nothing."""
    caller = world.caller(credit_micros=10_000)
    row = CallRow(world.ids.new("call"), caller.account_id, caller.key_id, "there/chat", "open", 1, 1, 1000)
    world.write(lambda tx: model_calls.begin(tx, world.ids, row, now_ms=world.now_ms))
    upkeep = rig.upkeep()
    longest = Settings(rig.folder).of(ChatSettings).chat_timeout_s + ABANDONED_CALL_S
    rounds(upkeep, 1000.0, 1000.0 + longest - 0.1)
    assert (9_000, 1000) == world.balance(caller.account_id)
    rounds(upkeep, 1000.0 + longest, 1000.0 + longest + CALLS_S)
    late = world.write(
        lambda tx: model_calls.settle(tx, world.ids, row.id, Used(1, 1, 1), now_ms=world.now_ms)
    )

    assert (10_000, 0) == world.balance(caller.account_id)
    assert None is late
    types = world.all("select type from entry where call_id = :id order by id", id=row.id)
    assert ["hold", "void"] == [entry["type"] for entry in types]
