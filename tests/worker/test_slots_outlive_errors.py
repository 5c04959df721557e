"""A slot's thread goes on after an error that nobody foresaw: its lane must not stand still."""

import time
from pathlib import Path

from servers.service import RunningService
from tenuto.db.opening import open_database

UNFORESEEN = "claim.failed"
TIMEOUT_S = 20.0


def test_a_lane_works_again_when_what_broke_its_claims_is_mended(tmp_path: Path) -> None:
    """The table of slots goes away under a running worker and comes back: the waiting job is then run."""
    service = RunningService(tmp_path / "data", f"sqlite:///{tmp_path}/tenuto.db")
    service.start()
    try:
        service.key = service.make_key(credit="10")
        database = open_database(f"sqlite:///{tmp_path}/tenuto.db")
        database.write(lambda tx: tx.run("alter table slot rename to slot_away"))
        job_id = service.submit("It waits until the slots are back.")
        until = time.monotonic() + TIMEOUT_S
        while UNFORESEEN not in service.log_path.read_text():
            assert time.monotonic() < until, service.log_path.read_text()[-2000:]
            time.sleep(0.02)
        database.write(lambda tx: tx.run("alter table slot_away rename to slot"))
        database.close()

        assert "succeeded" == service.wait(job_id)["state"]
    finally:
        service.stop()
