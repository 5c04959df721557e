"""The faulty proxy itself: each fault is what it says, on a server that says everything back."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from servers.postgres import THROUGH, PostgresServer
from servers.proxy import Proxy, Towards
from servers.speed import at_least

WAIT_S = 5.0


class _Echo(socketserver.BaseRequestHandler):
    """Says every byte back, in one block each, until the client has no more to say; then says goodbye."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            while block := self.request.recv(65536):
                self.request.sendall(block)
            self.request.sendall(b"bye")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before a server that echoes."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    proxy = Proxy(("127.0.0.1", server.server_address[1]))
    yield proxy
    proxy.close()
    server.shutdown()
    server.server_close()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), WAIT_S)


def read(client: socket.socket, size_bytes: int) -> bytes:
    """So many bytes, or fewer where the stream ends."""
    content = b""
    while len(content) < size_bytes and (block := client.recv(size_bytes - len(content))):
        content += block
    return content


def test_without_a_fault_everything_passes(proxy: Proxy) -> None:
    """Bytes arrive whole and in order, and a half-closed connection still gets its answer."""
    sent = bytes(range(256)) * 4000
    with connect(proxy) as client:
        threading.Thread(target=client.sendall, args=(sent,)).start()
        received = read(client, len(sent))
        client.shutdown(socket.SHUT_WR)

        assert sent == received
        assert b"bye" == read(client, 10)


def test_a_cut_resets_every_link_once(proxy: Proxy) -> None:
    """Those who are connected see a reset; those who come after find all as before."""
    with connect(proxy) as first, connect(proxy) as second:
        for client in (first, second):
            client.sendall(b"x")
            read(client, 1)
        cut = proxy.cut()

        assert (2, 2) == (cut, proxy.cuts())
        for client in (first, second):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
    with connect(proxy) as third:
        third.sendall(b"again")
        assert b"again" == read(third, 5)


def test_who_is_refused_may_come_back(proxy: Proxy) -> None:
    """While it refuses nobody connects, links go on, and the port stays the same."""
    with connect(proxy) as before:
        before.sendall(b"a")
        read(before, 1)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        before.sendall(b"b")
        assert b"b" == read(before, 1)
    proxy.pass_on()

    with connect(proxy) as after:
        after.sendall(b"c")
        assert b"c" == read(after, 1)


@pytest.mark.parametrize("ways", [(), (Towards.CLIENT,)])
def test_a_stall_keeps_what_was_sent(proxy: Proxy, ways: tuple[Towards, ...]) -> None:
    """Nothing comes while it stalls, of either way or of both, and everything after it, to new links too."""
    proxy.stall(*ways)
    with connect(proxy) as client:
        client.sendall(b"held")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(WAIT_S)
        proxy.pass_on()

        assert b"held" == read(client, 4)


def test_a_delay_slows_both_ways(proxy: Proxy) -> None:
    """A round trip takes at least twice the delay."""
    proxy.delay(0.1)
    with connect(proxy) as client, at_least(0.2):
        client.sendall(b"x")
        read(client, 1)


@pytest.mark.parametrize("size_bytes", [0, 1, 70_000])
def test_a_link_is_cut_after_so_many_bytes(proxy: Proxy, size_bytes: int) -> None:
    """Exactly so many arrive, then the end; each link counts for itself."""
    proxy.cut_after(size_bytes, Towards.CLIENT)

    for _ in range(2):
        with connect(proxy) as client:
            client.sendall(b"x" * 100_000)
            assert size_bytes == len(read(client, 100_000))
    assert 2 == proxy.cuts()


def test_a_mark_is_found_across_blocks(proxy: Proxy) -> None:
    """The second mark cuts, though it comes in two pieces; what was before it has passed."""
    proxy.cut_at(b"commit", Towards.CLIENT, nth=2)
    with connect(proxy) as client:
        for piece in (b"one commit ", b"com"):
            client.sendall(piece)
            assert piece == read(client, len(piece))
        client.sendall(b"mit two")

        with pytest.raises(ConnectionResetError):
            client.recv(100)
    assert proxy.wait_cuts(1, WAIT_S)


def test_a_commit_whose_answer_is_lost_was_done(postgres_server: PostgresServer) -> None:
    """Towards the client the answer is lost and the row is there; towards the server the row is not."""
    postgres_server.run("create table if not exists kept (way text)")
    proxy = Proxy(postgres_server.address)
    url = THROUGH.format(port=proxy.port, name="postgres")
    for way, mark in ((Towards.CLIENT, b"COMMIT\0"), (Towards.SERVER, b"COMMIT")):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.OperationalError):
            connection.execute("insert into kept (way) values (%s)", [way.value])
            proxy.cut_at(mark, way)
            connection.commit()
    with psycopg.connect(url) as connection:
        kept = connection.execute("select way from kept").fetchall()
    proxy.close()
    postgres_server.run("drop table kept")

    assert [("client",)] == kept
