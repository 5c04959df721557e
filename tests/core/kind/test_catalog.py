"""What workers say of themselves, and when a model can be called."""

from collections.abc import Collection
from pathlib import Path

import pytest

from servers.world import METERED, SPEECH, World
from tenuto.config import ModelSettings, OwnPrice, Price, Settings
from tenuto.errors import SettingsInvalid
from tenuto.kind import operations as catalog
from tenuto.kind.model import MAX_START_FAILURES, models

DUAL = "fake/dual-recognition"


def test_a_model_is_callable_while_a_worker_offers_it(world: World) -> None:
    """It need not be loaded; nobody offers a model at first, and no name that only looks like it."""
    assert {SPEECH: "no worker offers it"} == reasons(world, SPEECH)
    world.register("worker_a", frozenset({SPEECH}))

    assert {SPEECH: None, METERED: "no worker offers it", "fake": "no worker offers it"} == reasons(
        world, SPEECH, METERED, "fake"
    )


def test_a_worker_that_stops_in_order_offers_nothing_more(world: World) -> None:
    """At once, while it drains; its row stays, and the other worker's offer counts (R24, R189)."""
    world.register("worker_a")
    world.register("worker_b", frozenset({METERED}))
    world.write(lambda tx: catalog.withdraw_offers(tx, "worker_a"))

    assert {SPEECH: "no worker offers it", METERED: None} == reasons(world, SPEECH, METERED)
    assert ["worker_a", "worker_b"] == [row.id for row in world.read(catalog.workers)]


def test_a_worker_that_is_away_offers_nothing(world: World) -> None:
    """Whoever else offers the model keeps it callable (R24, R189)."""
    world.register("worker_a")
    world.register("worker_b", frozenset({SPEECH}))
    world.register("worker_c", frozenset({SPEECH}))

    assert {SPEECH: None, METERED: "no worker offers it"} == reasons(
        world, SPEECH, METERED, away={"worker_a"}
    )
    assert {SPEECH: "no worker offers it"} == reasons(
        world, SPEECH, away={"worker_a", "worker_b", "worker_c"}
    )


def test_an_engine_that_fails_to_start_three_times_is_not_callable(world: World) -> None:
    """Of that model alone; once it starts, it is again."""
    world.register("worker_a")
    for failures in range(1, MAX_START_FAILURES + 1):
        assert {SPEECH: None} == reasons(world, SPEECH)
        fails(world, "worker_a", failures)

    assert {SPEECH: "its engine fails to start", METERED: None} == reasons(world, SPEECH, METERED)
    world.write(lambda tx: catalog.engine_started(tx, "worker_a", SPEECH))
    assert {SPEECH: None} == reasons(world, SPEECH)


def test_one_worker_that_can_is_enough(world: World) -> None:
    """Another's engine may fail; when it is gone as well, the reason is the failing one's."""
    world.register("worker_a")
    world.register("worker_b")
    fails(world, "worker_a", MAX_START_FAILURES)
    assert {SPEECH: None} == reasons(world, SPEECH)
    assert [0, MAX_START_FAILURES] == sorted(
        row.start_failures
        for worker in ("worker_a", "worker_b")
        for row in world.read(lambda tx, w=worker: catalog.worker_models(tx, w))  # type: ignore[misc]
        if row.model == SPEECH
    )

    world.write(lambda tx: catalog.forget_worker(tx, "worker_b"))
    assert {SPEECH: "its engine fails to start"} == reasons(world, SPEECH)
    assert ["worker_a"] == [row.id for row in world.read(catalog.workers)]


def test_models_as_the_operator_sets_them() -> None:
    """A disabled model is not there; a price is the operator's, else nothing; fakes stand by themselves."""
    price = OwnPrice("job", 5, 7)
    settings = Settings(
        folder=Path("x"),
        engines="fake",
        models={SPEECH: ModelSettings(price=price), METERED: ModelSettings(enabled=False)},
    )
    offered = models(settings)

    assert SPEECH in offered
    assert METERED not in offered
    assert (Price("job", 5, 7), True, "speech") == (
        offered[SPEECH].price,
        offered[SPEECH].rerunnable,
        offered[SPEECH].lane,
    )
    assert not models(Settings(folder=Path("x"), engines="fake"))[METERED].rerunnable
    assert not {SPEECH, METERED} & {*models(Settings(folder=Path("x")))}


def reasons(world: World, *models: str, away: Collection[str] = ()) -> dict[str, str | None]:
    """Why each model can't be called; the two questions give one answer."""
    answer = world.read(lambda tx: catalog.reasons(tx, [*models], away=away))
    for model in models:
        offer = world.read(
            lambda tx, name=model: catalog.ask_callable(tx, name, away=away).one()  # type: ignore[misc]
        )
        assert (answer[model] is None) == (offer is not None)
    return answer


def fails(world: World, worker_id: str, failures: int) -> None:
    world.write(
        lambda tx: catalog.engine_not_started(tx, worker_id, SPEECH, failures=failures, reason="no weights")
    )


@pytest.mark.parametrize(
    ("own", "price"),
    [
        (None, Price("audio_minute", 50_000, 6_000_000)),
        (OwnPrice(), Price("audio_minute", 50_000, 6_000_000)),
        (OwnPrice(price_micros=100_000), Price("audio_minute", 100_000, 12_000_000)),
        (OwnPrice(hold_micros=1), Price("audio_minute", 50_000, 1)),
        (OwnPrice("job", 7), Price("job", 7, 7)),
    ],
)
def test_a_price_keeps_what_its_kind_has(own: OwnPrice | None, price: Price) -> None:
    """Recognition costs by the minute and holds 120 unless the operator says otherwise (R132, R133)."""
    settings = Settings(folder=Path("x"), engines="fake", models={DUAL: ModelSettings(price=own)})

    assert price == models(settings)[DUAL].price


def test_one_setting_makes_everything_free() -> None:
    """No price and no hold is left, whatever the kind; a price that is set beside it is a mistake."""
    offered = models(Settings(folder=Path("x"), engines="fake", prices="free"))
    both = Settings(
        folder=Path("x"),
        engines="fake",
        prices="free",
        models={DUAL: ModelSettings(price=OwnPrice(price_micros=1))},
    )

    assert {(0, 0)} == {(model.price.price_micros, model.price.hold_micros) for model in offered.values()}
    assert "audio_minute" == offered[DUAL].price.unit
    with pytest.raises(SettingsInvalid, match="prices is `free`"):
        models(both)


@pytest.mark.parametrize(
    ("model", "own", "fault"),
    [
        ("fake/image", OwnPrice("audio_minute", 50_000), "unit: audio_minute means nothing for image"),
        (DUAL, OwnPrice(price_micros=50_000, hold_micros=0), "hold: is 0"),
        (SPEECH, OwnPrice("job", 50_000, 0), "hold: is below the price"),
    ],
)
def test_a_price_that_could_never_be_charged_is_refused(model: str, own: OwnPrice, fault: str) -> None:
    """At the start and by `tenuto admin doctor`, not when the first job is to be settled (P3)."""
    settings = Settings(folder=Path("x"), engines="fake", models={model: ModelSettings(price=own)})

    with pytest.raises(SettingsInvalid, match=fault):
        models(settings)
