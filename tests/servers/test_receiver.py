"""The receiver of messages, as the campaign of faults and the tests of webhooks rely on it."""

import socket

from servers.receiver import Receiver


def test_a_message_whose_sender_was_killed_is_none() -> None:
    """Half of a body is followed by a whole message on a connection of its own."""
    receiver = Receiver()
    try:
        for length, body in ((9, b"half"), (5, b"whole")):
            with socket.create_connection(("127.0.0.1", receiver.port)) as sender:
                sender.sendall(b"POST /hook HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % length + body)
                sender.shutdown(socket.SHUT_WR)
                assert (length == len(body)) == sender.recv(100).startswith(b"HTTP/1.1 204")
        assert [b"whole"] == [message.body for message in receiver.messages]
    finally:
        receiver.close()
