"""The many-machine shape on one machine, under load and under blows: `python -m lab.cluster`.

PostgreSQL and an S3 store on one machine, three APIs and four workers on others: network namespaces where
they are allowed, else processes behind proxies. Clients of the fault campaign ask for everything that fake
engines do; one API and one worker run real engines. Meanwhile four processes race for claims. At the end
everything is held against the promises. Exit code 0: all are kept.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.shared import ROOT

CLAIMS, SLOTS = 100_000, 3


def main() -> int:
    """Run what the command line asks for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked = _arguments()
    if asked.race:
        return _race(asked.claims)
    from lab.cluster import trial

    began = time.monotonic()
    words = [sys.executable, "-m", "lab.cluster", "--race", "--claims", str(asked.claims)]
    racing = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        with TemporaryDirectory(prefix="tenuto-cluster-", ignore_cleanup_errors=True) as folder:
            outcomes = trial.run(Path(folder), asked.seed)
        said, _ = racing.communicate(timeout=trial.MOST_S)
    finally:
        racing.terminate()
        racing.wait()
    outcomes.append(trial.raced(json.loads(said), asked.claims, SLOTS))
    print(trial.table(outcomes))
    kept = sum(outcome.is_kept for outcome in outcomes)
    print(f"{kept} of {len(outcomes)} as they must be, in {time.monotonic() - began:.0f} s")
    return 0 if kept == len(outcomes) else 1


def _race(claims: int) -> int:
    """In a process of its own: its figures as JSON."""
    from lab.cluster.claims import race

    from servers.postgres import start_postgres
    from tenuto.db.database_opening import open_database
    from tenuto.db.migrations import migrate

    server = start_postgres(is_durable=False)
    try:
        server.run("create database race")
        database = open_database(server.url("race"))
        migrate(database)
        database.close()
        seen = race(server.url("race"), claims=claims, slots=SLOTS)
    finally:
        server.stop()
    shares = seen.by_account.values()
    print(
        json.dumps(
            {
                "claims": seen.claims,
                "most": max(seen.most_held, seen.most_running),
                "uneven": seen.uneven,
                "least": min(shares),
                "share": max(shares),
                "took_s": seen.took_s,
            }
        )
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="what the load is drawn from")
    parser.add_argument("--claims", type=int, default=CLAIMS, help="how many the four processes make")
    parser.add_argument("--race", action="store_true", help="the claims alone, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
