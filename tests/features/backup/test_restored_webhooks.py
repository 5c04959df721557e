"""Webhooks of a restored service."""

from pathlib import Path

import pytest

from features.backup.conftest import MakeService
from servers.receiver import Receiver


@pytest.mark.parametrize("source", ["sqlite", "postgresql"])
def test_a_restored_service_informs_its_webhooks(
    source: str, make_place: MakeService, tmp_path: Path
) -> None:
    """What ends after a restore is sent, and what had not been sent before the backup (P21)."""
    receiver = Receiver()
    place = make_place(source, TENUTO_WEBHOOKS="any")
    place.start()
    place.key = place.make_key(credit="100")
    history = [place.wait(place.submit(f"Before the webhook {number}."))["id"] for number in range(5)]
    with place.client() as client:
        answer = client.post("/v1/webhooks", json={"url": receiver.url, "events": ["job.succeeded"]})
    assert answer.status_code == 201, answer.text
    sent = place.wait(place.submit("Before the backup."))["id"]
    receiver.wait(1)
    place.stop()
    place.variables = {**place.variables, "TENUTO_WEBHOOKS": "off"}
    place.start()
    unsent = place.wait(place.submit("While nobody sends."))["id"]
    place.command("admin", "backup", str(tmp_path / "kept"))
    place.stop()

    other = make_place("sqlite", TENUTO_WEBHOOKS="any")
    other.key = place.key
    other.command("admin", "restore", str(tmp_path / "kept"))
    other.start()
    new = [other.wait(other.submit(f"After the restore {number}."))["id"] for number in range(3)]
    receiver.wait(5)
    receiver.close()

    informed = [message.id.rpartition("_")[0] for message in receiver.messages]
    assert sorted([sent, unsent, *new]) == sorted(informed)
    assert not set(history) & set(informed)
