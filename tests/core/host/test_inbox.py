"""The messages of one host, as its reader and the callers of its runs meet them."""

import socket

from tenuto.host.messages import Inbox
from tenuto_engine import wire


def test_an_abandoned_run_may_end_before_its_caller_has_left() -> None:
    """The caller that gave up on it closes it as any other, and the place is free."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox = Inbox(ours)
        inbox.open("run", 1, 0.0, lambda: False)
        inbox.leave("run")
        theirs.sendall(b"".join(wire.encode({"type": "cancelled", "run_id": "run"})))
        theirs.shutdown(socket.SHUT_WR)

        assert inbox.read() == ""
        inbox.close("run")
        assert not inbox.has_runs()
