"""The Hugging Face hub as a source: one file of a repository at one commit, continued where it was cut off.

`HF_ENDPOINT` names a mirror of the hub, as it does for the hub's own tools. Knows no hashes: what comes out
is not trusted yet.
"""

import http.client
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from tenuto.weights.cache import BLOCK_BYTES
from tenuto.weights.carriers import SourceFailed
from tenuto.weights.manifest import HubSource

# For connecting and for each read: behind a firewall that drops packets a pull must not hang.
SILENCE_LIMIT_S = 10.0
TRIES = 3


def address(source: HubSource, path: str) -> str:
    """Where the hub has this file of a weight."""
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise SourceFailed("HF_ENDPOINT is not an http or https address")
    wanted = urllib.parse.quote(source.path.replace("{file}", path))
    return f"{endpoint.rstrip('/')}/{source.repository}/resolve/{source.revision}/{wanted}"


def download(
    url: str, size_bytes: int, target: Path, *, on_bytes: Callable[[int], None], stop: threading.Event
) -> None:
    """Brings `target` to `size_bytes`, keeping what is there already; raises SourceFailed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, TRIES + 1):
        before = target.stat().st_size if target.exists() else 0
        try:
            _continue(url, size_bytes, target, on_bytes, stop)
            return
        except urllib.error.HTTPError as error:
            raise SourceFailed(f"{url} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            arrived = target.stat().st_size if target.exists() else 0
            # A connection that brought nothing is not worth another try.
            if attempt == TRIES or arrived <= before:
                raise SourceFailed(f"{url} cannot be read: {getattr(error, 'reason', error)}") from error


def _continue(
    url: str, size_bytes: int, target: Path, on_bytes: Callable[[int], None], stop: threading.Event
) -> None:
    have = target.stat().st_size if target.exists() else 0
    if have > size_bytes:
        target.unlink()
        have = 0
    if have == size_bytes and target.exists():
        on_bytes(have)
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=SILENCE_LIMIT_S) as response:
        # A server that does not know ranges sends the whole with a 200: then we start over.
        have = have if response.status == HTTPStatus.PARTIAL_CONTENT else 0
        with target.open("r+b" if have else "wb") as output:
            output.seek(have)
            while block := response.read(BLOCK_BYTES):
                have += len(block)
                if have > size_bytes:
                    raise SourceFailed(f"the hub sends more than the {size_bytes} bytes expected")
                output.write(block)
                on_bytes(have)
                if stop.is_set():
                    raise SourceFailed("the pull was stopped")
    if have < size_bytes:
        raise ConnectionError(f"the connection ended after {have} of {size_bytes} bytes")
