"""What a listener costs while nobody wakes it."""

import subprocess
import sys

IDLE = """
import sys, time
from resource import RUSAGE_SELF, getrusage
from tenuto.db.database_opening import open_database
database = open_database(sys.argv[1])
listener = database.listen("jobs")
while listener.wait(0.3):
    pass
before, woken = time.process_time(), getrusage(RUSAGE_SELF).ru_nvcsw
listener.wait(2)
print(time.process_time() - before, getrusage(RUSAGE_SELF).ru_nvcsw - woken)
listener.close()
database.close()
"""


def test_waiting_costs_next_to_nothing(empty_database_url: str) -> None:
    """An idle listener uses at most 0.5 % of a core (0.05 % when measured alone), and wakes once a second.

    In a process of its own: what threads of earlier tests do in this one isn't the listener's.
    """
    waiting = subprocess.run(
        [sys.executable, "-c", IDLE, empty_database_url],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    used_s, woken = waiting.stdout.split()

    assert float(used_s) < 2 * 0.005
    assert int(woken) < 15
