"""A batch through SIGKILLs of the client and of the service: N lines, N jobs, N files, each once."""

import csv
import hashlib
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

from crash.conftest import MakeService
from servers.checker import PRICE, check_audit, check_jobs, open_records, rows
from servers.service import RunningService
from tenuto_client.batch import REPORT

LINES = int(os.environ.get("TENUTO_BATCH_LINES", "100"))
KILLS = int(os.environ.get("TENUTO_BATCH_KILLS", "3"))
IMPATIENT = Path(__file__).parents[1] / "client" / "impatient"
LONGEST_S = 30 + LINES
CREDIT = LINES
"""More than enough: an image costs 0.05."""


def test_a_batch_through_kills_has_each_job_file_and_charge_once(
    make_service: MakeService, tmp_path: Path
) -> None:
    """The client, the service and both are killed in turn while results arrive (P2, P9).

    `make soak-tests` does it with 2,000 lines and ten kills.
    """
    service = make_service()
    service.start()
    key = service.make_key(credit=str(CREDIT))
    folder = tmp_path / "results"
    lines = tmp_path / "lines.csv"
    with lines.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "prompt", "model", "width", "height"])
        for number in range(LINES):
            is_speech = number % 2
            writer.writerow(
                [f"line {number:05}", f"Line {number}." if is_speech else ""]
                + (
                    ["", "fake/speech", "", ""]
                    if is_speech
                    else [f"A line, {number}.", "fake/image", 256, 256]
                )
            )
    client = _begin(service, key, lines, folder)
    for kill in range(KILLS):
        _wait_for_files(folder, (kill + 1) * LINES // (KILLS + 1), client)
        if kill % 3 != 0:
            service.kill()
        if kill % 3 != 1:
            client.kill()
            client.wait()
        if kill % 3 != 0:
            service.start()
        if kill % 3 != 1:
            client = _begin(service, key, lines, folder)
    code = client.wait(LONGEST_S)
    with (folder / REPORT).open(newline="") as file:
        report = list(csv.DictReader(file))
    database = open_records(service)
    jobs = [row["id"] for row in rows(database, "select id from job")]
    left = sorted(path.name for path in folder.iterdir() if path.suffix not in (".wav", ".png"))

    assert 0 == code, client.stderr and client.stderr.read()[-2000:]
    check_jobs(database, LINES)
    check_audit(service)
    assert sorted(jobs) == sorted(line["job"] for line in report)
    assert {("succeeded", Decimal(PRICE))} == {(line["state"], Decimal(line["charge"])) for line in report}
    assert [] == [line["id"] for line in report if _sha256(folder / line["file"]) != line["sha256"]]
    assert (LINES, [".tenuto", REPORT]) == (len({line["file"] for line in report}), left)
    database.close()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _begin(service: RunningService, key: str, lines: Path, folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    environment |= {"TENUTO_BASE_URL": service.url, "TENUTO_API_KEY": key, "PYTHONPATH": str(IMPATIENT)}
    command = [sys.executable, "-m", "tenuto_client", "batch", str(lines), "-o", str(folder), "-q"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def _wait_for_files(folder: Path, count: int, client: subprocess.Popen[str]) -> None:
    """Until this many results are there; files are the only signal that a batch gives."""
    until = time.monotonic() + LONGEST_S
    while not folder.is_dir() or sum(path.suffix in (".wav", ".png") for path in folder.iterdir()) < count:
        assert time.monotonic() < until, f"fewer than {count} files"
        assert client.poll() is None, client.stderr and client.stderr.read()
        time.sleep(0.02)
