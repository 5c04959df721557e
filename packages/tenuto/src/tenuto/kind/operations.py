"""What workers report about themselves, and what follows for callers: whether a model is `callable`."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tenuto.db.database import Deferred, Transaction
from tenuto.ids import Ids
from tenuto.kind import store
from tenuto.kind.model import MAX_START_FAILURES, Model, at_price
from tenuto.kind.rows import ModelChangeRow, ModelSettingRow, OfferRow, WorkerRow


def register_worker(
    tx: Transaction,
    worker_id: str,
    *,
    machine: str,
    pid: int,
    lock_name: str,
    models: list[str],
    now_ms: int,
    abilities: Sequence[Mapping[str, Any]] = (),
    engine_memory_mib: int = 0,
) -> None:
    """Register a worker that starts, with the models that it can run (weights verified).

    `abilities` lists, for the operator, every model that it was asked to run and why it cannot run one.
    """
    store.add_worker(
        tx,
        worker_id,
        machine=machine,
        pid=pid,
        lock_name=lock_name,
        abilities=json.dumps(list(abilities)),
        engine_memory_mib=engine_memory_mib,
        now_ms=now_ms,
    )
    for model in models:
        store.add_offer(tx, worker_id, model)


def engines_measured(tx: Transaction, worker_id: str, engines: Mapping[str, int]) -> None:
    """Record the engines that a worker has loaded, and the MiB that each takes."""
    store.set_engines(tx, worker_id, json.dumps(engines))


def see_worker(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """Record that the worker is alive. False: it was presumed dead and forgotten; it must register again."""
    return store.see(tx, worker_id, now_ms) > 0


def withdraw_offers(tx: Transaction, worker_id: str) -> None:
    """Withdraw a stopping worker's offers: nothing more is accepted for it. Its row stays while it drains."""
    store.remove_offers(tx, worker_id)


def engine_started(tx: Transaction, worker_id: str, model: str) -> None:
    """Record that the engine started: earlier failures no longer count."""
    store.set_start_failures(tx, worker_id, model, start_failures=0, reason=None)


def engine_not_started(tx: Transaction, worker_id: str, model: str, *, failures: int, reason: str) -> None:
    """Record that the engine failed to start, for the `failures`-th time in a row."""
    store.set_start_failures(tx, worker_id, model, start_failures=failures, reason=reason)


def ask_callable(tx: Transaction, model: str, *, away: Collection[str]) -> Deferred:
    """Ask whether a job for the model may be accepted: no row means no, a row has the operator's settings.

    `away`: workers that do not count.
    """
    return store.usable_offer(tx, model, away=away, max_failures=MAX_START_FAILURES)


def as_set(tx: Transaction, models: Sequence[Model]) -> list[tuple[Model, bool]]:
    """The models at their current prices, and whether each is switched on."""
    settings = {setting.model: setting for setting in store.model_settings(tx)}
    usual = ModelSettingRow("", 1, None)
    return [
        (at_price(model, setting.price_micros), bool(setting.is_enabled))
        for model in models
        for setting in [settings.get(model.name, usual)]
    ]


def is_switched_on(tx: Transaction, model: str) -> bool:
    """Whether the operator has not switched the model off."""
    setting = store.model_setting(tx, model)
    return setting is None or bool(setting.is_enabled)


def set_model(
    tx: Transaction,
    ids: Ids,
    model: str,
    *,
    is_enabled: bool,
    price_micros: int | None,
    operator: str,
    now_ms: int,
) -> None:
    """Switch a model on or off and set its price, for what is accepted from now on; records the change.

    A call that changes nothing records nothing, so that a repeated request is one change.
    """
    before = store.model_setting(tx, model) or ModelSettingRow(model, 1, None)
    after = ModelSettingRow(model, int(is_enabled), price_micros)
    if before == after:
        return
    store.set_model(tx, model, is_enabled=after.is_enabled, price_micros=price_micros)
    change = ModelChangeRow(ids.new("change"), model, operator, after.is_enabled, price_micros, now_ms)
    store.add_model_change(tx, change)


def model_settings(tx: Transaction) -> list[ModelSettingRow]:
    """The operator's settings from the studio, for the models that have any."""
    return store.model_settings(tx)


def model_changes(tx: Transaction, limit: int) -> list[ModelChangeRow]:
    """The latest changes of models, newest first."""
    return store.model_changes(tx, limit)


def reasons(tx: Transaction, models: list[str], *, away: Collection[str]) -> dict[str, str | None]:
    """For each model, None if it is callable, or why it is not. `away`: workers that do not count."""
    offers = [offer for offer in store.offers(tx) if offer.worker_id not in away]
    answer: dict[str, str | None] = {}
    for model in models:
        own = [offer for offer in offers if offer.model == model]
        if any(offer.start_failures < MAX_START_FAILURES for offer in own):
            answer[model] = None
        elif own:
            answer[model] = "its engine fails to start"
        else:
            answer[model] = "no worker offers it"
    return answer


def workers(tx: Transaction) -> list[WorkerRow]:
    """All known workers, oldest first."""
    return store.workers(tx)


def worker_models(tx: Transaction, worker_id: str) -> list[OfferRow]:
    """What one worker offers."""
    return store.offers_of_worker(tx, worker_id)


def forget_worker(tx: Transaction, worker_id: str) -> None:
    """Forget a worker that has been away for so long that its row means nothing any more."""
    store.remove_worker(tx, worker_id)
