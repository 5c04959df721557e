"""The blob store under fault: SeaweedFS behind a proxy that cuts connections.

Its own client looks past the proxy, and past the program under test, at what lies there.
"""

import hashlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import obstore

from servers.proxy import Proxy, Towards
from servers.seaweedfs import ACCESS_KEY, REGION, SECRET_KEY, SeaweedServer
from tenuto.features.s3.s3_client import Credentials, S3Location, client

TIMEOUT_S = 2.0
"""How long the service waits for an answer of the store."""

_BUCKET, _PREFIX = "faults", "a/life"


class Bucket:
    """A bucket of a running server, and the ways to hurt it."""

    def __init__(self, server: SeaweedServer) -> None:
        self._server = server
        self.proxy = Proxy((server.address, server.port))

    @property
    def endpoint(self) -> str:
        """Through the proxy."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @property
    def settings(self) -> Mapping[str, str]:
        """What makes a service keep its bytes here."""
        return {
            "TENUTO_BLOBS": f"s3://{_BUCKET}/{_PREFIX}",
            "TENUTO_S3_ENDPOINT": self.endpoint,
            "TENUTO_S3_TIMEOUT_S": str(TIMEOUT_S),
            **self._server.variables,
        }

    def place(self, endpoint: str) -> S3Location:
        return S3Location(
            _BUCKET,
            _PREFIX,
            endpoint,
            REGION,
            credentials=Credentials(ACCESS_KEY, SECRET_KEY),
            timeout_s=30.0,
        )

    def kill(self, away_s: float) -> None:
        """SIGKILL, and a start on the same data after this long."""
        self._server.kill()
        time.sleep(away_s)
        self._server.start()

    def refuse(self, away_s: float) -> None:
        """Refuse new connections and cut existing ones."""
        self.proxy.refuse()
        self.proxy.cut()
        time.sleep(away_s)
        self.proxy.pass_on()

    def stall(self, away_s: float) -> None:
        """No answer, and what was asked arrives late: a write may be done after its writer gave up."""
        self.proxy.stall(Towards.SERVER)
        time.sleep(away_s)
        self.proxy.pass_on()

    def wrong(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Which of these blobs (id, size_bytes, sha256) do not lie there, byte for byte."""
        store = client(self.place(self._server.endpoint))
        for row in rows:
            try:
                content = obstore.get(store, f"{row['id'][-2:]}/{row['id']}").bytes()
            except FileNotFoundError:
                yield f"P5: the store does not have {row['id']}"
                continue
            found = len(content), hashlib.sha256(content).hexdigest()
            if found != (row["size_bytes"], row["sha256"]):
                yield f"P6: the store has {found} of {row['id']}, not {row['size_bytes']}, {row['sha256']}"

    def close(self, *, keep_in: Path | None = None) -> None:
        """Ends the server; its data is removed, or moved there."""
        self.proxy.close()
        if keep_in is None:
            self._server.stop()
        else:
            self._server.kill()
            shutil.move(self._server.folder, keep_in)
