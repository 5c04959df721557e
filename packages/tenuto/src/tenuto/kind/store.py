"""The rows of workers, offers and settings of models. Takes a transaction, never commits, decides nothing."""

from collections.abc import Collection

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.kind.rows import ModelChangeRow, ModelSettingRow, OfferRow, WorkerRow


def add_worker(
    tx: Transaction,
    worker_id: str,
    *,
    machine: str,
    pid: int,
    lock_name: str,
    abilities: str,
    engine_memory_mib: int,
    now_ms: int,
) -> None:
    tx.run(
        """insert into worker
             (id, machine, pid, lock_name, abilities, engine_memory_mib, started_at, seen_at)
           values (:id, :machine, :pid, :lock_name, :abilities, :engine_memory_mib, :now, :now)""",
        id=worker_id,
        machine=machine,
        pid=pid,
        lock_name=lock_name,
        abilities=abilities,
        engine_memory_mib=engine_memory_mib,
        now=now_ms,
    )


def add_offer(tx: Transaction, worker_id: str, model: str) -> None:
    tx.run(
        "insert into worker_model (worker_id, model) values (:worker_id, :model)",
        worker_id=worker_id,
        model=model,
    )


def see(tx: Transaction, worker_id: str, now_ms: int) -> int:
    return tx.run("update worker set seen_at = :now where id = :id", id=worker_id, now=now_ms)


def set_engines(tx: Transaction, worker_id: str, engines: str) -> None:
    tx.run("update worker set engines = :engines where id = :id", id=worker_id, engines=engines)


def set_start_failures(
    tx: Transaction, worker_id: str, model: str, *, start_failures: int, reason: str | None
) -> None:
    tx.run(
        """update worker_model set start_failures = :failures, reason = :reason
           where worker_id = :worker_id and model = :model""",
        worker_id=worker_id,
        model=model,
        failures=start_failures,
        reason=reason,
    )


def remove_offers(tx: Transaction, worker_id: str) -> None:
    tx.run("delete from worker_model where worker_id = :id", id=worker_id)


def offers(tx: Transaction) -> list[OfferRow]:
    return records.all_records(
        tx,
        OfferRow,
        "select worker_id, model, start_failures, reason from worker_model order by model, start_failures",
    )


def usable_offer(tx: Transaction, model: str, *, away: Collection[str], max_failures: int) -> Deferred:
    """Ask for an offer by a worker that is not away, and the operator's settings for the model.

    Few workers are away at a time: they are forgotten after a while.
    """
    names = {f"away_{number}": worker_id for number, worker_id in enumerate(sorted(away))}
    but = f"and worker_id not in ({', '.join(f':{name}' for name in names)})" if names else ""
    return tx.ask(
        f"""select coalesce(s.is_enabled, 1) as is_enabled, s.price_micros
            from worker_model o left join model_setting s on s.model = o.model
            where o.model = :model and start_failures < :max_failures {but} limit 1""",  # noqa: S608 (names of ours)
        model=model,
        max_failures=max_failures,
        **names,
    )


def model_settings(tx: Transaction) -> list[ModelSettingRow]:
    return records.all_records(
        tx, ModelSettingRow, "select model, is_enabled, price_micros from model_setting order by model"
    )


def model_setting(tx: Transaction, model: str) -> ModelSettingRow | None:
    return records.one(
        tx,
        ModelSettingRow,
        "select model, is_enabled, price_micros from model_setting where model = :model",
        model=model,
    )


def set_model(tx: Transaction, model: str, *, is_enabled: int, price_micros: int | None) -> None:
    tx.run(
        """insert into model_setting (model, is_enabled, price_micros)
           values (:model, :is_enabled, cast(:price_micros as bigint))
           on conflict (model) do update
             set is_enabled = excluded.is_enabled, price_micros = excluded.price_micros""",
        model=model,
        is_enabled=is_enabled,
        price_micros=price_micros,
    )


def add_model_change(tx: Transaction, change: ModelChangeRow) -> None:
    tx.run(
        """insert into model_change (id, model, operator, is_enabled, price_micros, at)
           values (:id, :model, :operator, :is_enabled, cast(:price_micros as bigint), :at)""",
        id=change.id,
        model=change.model,
        operator=change.operator,
        is_enabled=change.is_enabled,
        price_micros=change.price_micros,
        at=change.at,
    )


def model_changes(tx: Transaction, limit: int) -> list[ModelChangeRow]:
    """The latest changes, newest first."""
    return records.all_records(
        tx,
        ModelChangeRow,
        """select id, model, operator, is_enabled, price_micros, at from model_change
           order by id desc limit :limit""",
        limit=limit,
    )


def workers(tx: Transaction) -> list[WorkerRow]:
    return records.all_records(
        tx,
        WorkerRow,
        """select id, machine, pid, lock_name, started_at, seen_at, abilities, engines, engine_memory_mib
           from worker order by id""",
    )


def offers_of_worker(tx: Transaction, worker_id: str) -> list[OfferRow]:
    return records.all_records(
        tx,
        OfferRow,
        """select worker_id, model, start_failures, reason from worker_model
           where worker_id = :id order by model""",
        id=worker_id,
    )


def remove_worker(tx: Transaction, worker_id: str) -> None:
    remove_offers(tx, worker_id)
    tx.run("delete from worker where id = :id", id=worker_id)
