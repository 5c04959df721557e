"""The rows of workers and of what they offer. Takes a transaction, never commits, decides nothing."""

from tenuto.db.database import Asked, Row, Transaction


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


def offers(tx: Transaction, seen_after: int) -> list[Row]:
    return tx.all(
        """select m.model, m.start_failures, m.reason from worker_model m join worker w on w.id = m.worker_id
           where w.seen_at > :seen_after order by m.model, m.start_failures""",
        seen_after=seen_after,
    )


def usable_offer(tx: Transaction, model: str, *, seen_after: int, max_failures: int) -> Asked:
    return tx.ask(
        """select 1 as one from worker_model m join worker w on w.id = m.worker_id
           where m.model = :model and m.start_failures < :max_failures and w.seen_at > :seen_after limit 1""",
        model=model,
        seen_after=seen_after,
        max_failures=max_failures,
    )


def workers(tx: Transaction) -> list[Row]:
    return tx.all("select * from worker order by id")


def worker_models(tx: Transaction, worker_id: str) -> list[Row]:
    return tx.all(
        "select model, start_failures, reason from worker_model where worker_id = :id order by model",
        id=worker_id,
    )


def remove_worker(tx: Transaction, worker_id: str) -> None:
    tx.run("delete from worker_model where worker_id = :id", id=worker_id)
    tx.run("delete from worker where id = :id", id=worker_id)
