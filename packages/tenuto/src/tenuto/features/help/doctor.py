"""`tenuto admin doctor`: checks everything that serving needs. Each fault ends with its remedy."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct

from tenuto.command.common import new_ids, own_blobs, say
from tenuto.command.options import ServiceLocation, add_location, location_of
from tenuto.errors import OperatorError, SettingsInvalid, TenutoError, Unavailable, remedy_of_folder
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_engine import network, processor

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.db.database import Database
    from tenuto.host.registry import EngineEntry
    from tenuto.kind.model import Model


def add(parser: Parser, name: str) -> None:
    """Its options."""
    add_location(parser)
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace, console: Console) -> int:
    """Report each check on a line; 1 if any fails."""
    results = check(location_of(options))
    for result in results:
        say(result.text)
    return 0 if all(result.good for result in results) else 1


class CheckResult(Struct, frozen=True):
    """The result of one check."""

    good: bool
    text: str


def check(location: ServiceLocation) -> list[CheckResult]:
    """Run all checks; changes nothing, except that probes are written and removed again."""
    try:
        settings = location.settings()
    except TenutoError as error:
        faults = error.message.splitlines()[1:]
        return [_bad("settings", fault.strip(), "correct this setting") for fault in faults]
    checks: tuple[Callable[[Settings], Iterator[CheckResult]], ...] = (
        _folder,
        _records,
        _bytes,
        _engines,
        _hosts,
        _decoders,
        _ffmpeg,
    )
    return [_good("settings", "are sound"), *(line for check in checks for line in _lines(check, settings))]


def _lines(
    check: "Callable[[Settings], Iterator[CheckResult]]", settings: "Settings"
) -> Iterator[CheckResult]:
    """The lines of a check; the others continue after it if this user may not read or write a file."""
    try:
        yield from check(settings)
    except OSError as error:
        yield _bad(check.__name__.strip("_"), str(error), "let this user read and write it")


def _folder(settings: "Settings") -> Iterator[CheckResult]:
    folder = settings.folder
    if not folder.exists():
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            yield _good("data folder", f"{folder.absolute()} is not there yet; the first start makes it")
        else:
            yield _bad("data folder", f"{above} cannot be written", "choose another with --data")
        return
    try:
        probe = folder / ".doctor"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        yield _bad("data folder", f"{folder}: {error.strerror}", remedy_of_folder(error))
        return
    from tenuto.process.data_opening import LITTLE_SPACE_BYTES

    free = shutil.disk_usage(folder).free
    if free < LITTLE_SPACE_BYTES:
        yield _bad("disk", f"{free >> 20} MiB free", "free some space, or choose another folder with --data")
    else:
        yield _good("data folder", f"{folder.resolve()} can be written, {free >> 30} GiB free")
    if folder.stat().st_mode & 0o077:
        yield _bad("data folder", "others may read it", f"chmod 700 {folder}")


def _hosts(settings: "Settings") -> Iterator[CheckResult]:
    """Whether the kernel keeps engines that call no server from opening sockets; tried in a child."""
    command = [sys.executable, "-m", network.__name__]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    if tried == network.NONE:
        yield _good("hosts", "engines that call no server have no network")
    else:
        yield _good("hosts", f"no engine reports to anybody, but its network is {tried or 'not closed'}")


def _decoders(settings: "Settings") -> Iterator[CheckResult]:
    """Whether the kernel lets callers' recordings be decoded in a process that can open nothing."""
    from tenuto.features.decoding.confinement import missing_here

    missing = missing_here()
    if missing:
        yield _good("decoders", f"are limited, but not confined: {'; '.join(missing)}")
    else:
        yield _good("decoders", "are confined: no files, no network, no other processes")


def _ffmpeg(settings: "Settings") -> Iterator[CheckResult]:
    """Whether the ffmpeg in the settings, if any, writes AAC while confined."""
    from tenuto.config.addresses import NONE
    from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed
    from tenuto.features.decoding.wav import pcm16_wav
    from tenuto.features.renditions import ffmpeg
    from tenuto.features.renditions.settings import RenditionSettings

    program = settings.of(RenditionSettings).ffmpeg
    if program == NONE:
        return
    with tempfile.TemporaryFile(buffering=0) as wav, tempfile.TemporaryFile(buffering=0) as aac:
        wav.write(pcm16_wav(bytes(48_000), 24_000, 1))
        try:
            version = ffmpeg.version(program)
            ffmpeg.to_aac(program, cast(BinaryIO, wav), cast(BinaryIO, aac))
        except (DecoderFailed, DecoderEnded) as error:
            yield _bad("ffmpeg", str(error), "set `ffmpeg` to the path of one that runs, or to none")
        else:
            yield _good("ffmpeg", version)


def _records(settings: "Settings") -> Iterator[CheckResult]:
    from tenuto.db.connection_errors import describe, remedy
    from tenuto.db.integrity import has_amcheck
    from tenuto.features.audit.all_checks import database_damage, report
    from tenuto.features.help.unverified_server import unverified
    from tenuto.process.data_opening import is_first_run, open_as_it_is

    try:
        lacking = _lacking_migrations(settings)
        if lacking:
            yield from _not_up_to_date(settings, lacking)
            return
        with closing(open_as_it_is(settings)) as database:
            findings = report(database).findings
            first = is_first_run(database)
            stranger = _stranger(settings, database)
            damaged = database_damage(database, deep=False)
            unchecked = database.dialect == "postgresql" and not database.read(has_amcheck)
    except Unavailable as error:
        yield _bad("database", f"it {describe(error)}", remedy(error))
        return
    except TenutoError as error:
        yield _bad("database", error.message, "follow the message on this line")
        return
    yield _good("database", "answers, its migrations are applied")
    if host := unverified(settings.database):
        yield _good("database", f"{host} need not prove who it is, nor use TLS: add ?sslmode=verify-full")
    if damaged:
        yield _bad(
            "database",
            f"is damaged: {damaged[0].subject}: {damaged[0].seen['fault']}",
            "tenuto admin audit --deep",
        )
    if unchecked:
        yield _good("database", "hourly checks of its indexes need: create extension amcheck")
    if stranger:
        yield _bad("store", stranger, "follow the message on this line")
    if findings:
        yield _bad("ledger", f"{len(findings)} discrepancies", "tenuto admin audit")
    else:
        yield _good("ledger", "agrees with every job")
    if first:
        yield _no_account()


def _stranger(settings: "Settings", database: "Database") -> str | None:
    """Why the store is not this database's, if so; a store that does not answer is reported elsewhere."""
    try:
        own_blobs(settings, database)
    except Unavailable:
        return None
    except OperatorError as error:
        return error.message
    return None


def _lacking_migrations(settings: "Settings") -> list[str]:
    """The migrations that must be applied before anything can serve; no table and no file is created."""
    from tenuto.db.migrations import pending, shipped
    from tenuto.process.data_opening import refuse_unfinished
    from tenuto.process.newest_copy import open_compared

    refuse_unfinished(settings.folder)
    file = settings.database.removeprefix("sqlite:///")
    if file != settings.database and not (settings.folder / file).exists():
        return [migration.name for migration in shipped()]
    with closing(open_compared(settings)) as database:
        return pending(database)


def _not_up_to_date(settings: "Settings", lacking: list[str]) -> Iterator[CheckResult]:
    """Depending on the settings, the first process to start applies them, or the operator must."""
    from tenuto.db.migrations import shipped

    if settings.migrations == "wait":
        yield _bad("database", f"answers, but lacks {len(lacking)} migrations", "tenuto admin migrate")
    elif len(lacking) == len(shipped()):
        yield _good("database", "is empty; the first start makes its tables")
        yield _no_account()
    else:
        yield _good("database", f"answers; the next start applies {len(lacking)} migrations")


def _no_account() -> CheckResult:
    """Having no account is fine: the service has just been set up."""
    return _good(
        "accounts",
        "there is none yet; the link that `tenuto serve` prints or `tenuto login --local` makes one",
    )


def _bytes(settings: "Settings") -> Iterator[CheckResult]:
    """Whether a bucket does everything that it will have to do; the data folder was checked before."""
    from tenuto.config.storage import bucket_of

    if bucket_of(settings.blobs) is None:
        return
    from tenuto.features.s3.bucket_opening import probe
    from tenuto.features.s3.s3 import S3Blobs
    from tenuto.process.data_opening import open_blobs

    try:
        blobs = open_blobs(settings)
        probe(blobs, new_ids().new("blob"))
        assert isinstance(blobs, S3Blobs)
        yield _good("blobs", f"{blobs.place} writes once, reads and removes")
        if blobs.place.credentials is None:
            yield _good(
                "blobs", "a lifecycle rule of the bucket must remove unfinished uploads: no keys are set"
            )
        else:
            yield _good("blobs", f"{blobs.unfinished()} unfinished uploads")
    except TenutoError as error:
        yield _bad("blobs", f"{settings.blobs}: {error.message}", "docs/operations/storage.md")


def _engines(settings: "Settings") -> Iterator[CheckResult]:
    from tenuto.host.manifests import here
    from tenuto.kind.kinds import is_known
    from tenuto.kind.model import models

    try:
        offered = models(settings)
    except SettingsInvalid as error:
        for fault in error.message.splitlines()[1:]:
            yield _bad("models", fault.strip(), "correct its table")
        return
    for name, model in offered.items():
        yield from _engine(settings, name, model)
    for fault in here().faults:
        yield _bad("engines", fault, "repair or uninstall its package")
    for manifest in here().manifests.values():
        if manifest.offered and not is_known(manifest.kind):
            fault = f"{manifest.name} is for {manifest.kind}, and there is no such kind of job"
            yield _bad("engines", fault, "install the package of that kind")


def _engine(settings: "Settings", name: str, model: "Model") -> Iterator[CheckResult]:
    """Check one model: its weights, what its engines need on this machine, the key of its server."""
    from tenuto.features.models.cache import is_verified
    from tenuto.host.registry import engines_of, weights_of
    from tenuto.kind import upstream_keys

    parts = engines_of(model.entry)
    in_pool = [entry for entry in parts if _is_in_pool(settings, entry.model)]
    for fault in (processor.fault(entry.processors) for entry in parts if entry not in in_pool):
        if fault:
            yield _good(name, f"is not offered by this machine: {fault} → a model of another server")
            return
    missing = [weight for weight in weights_of(model.entry) if not is_verified(settings.cache, weight)]
    if missing:
        yield _bad(name, f"lacks {', '.join(missing)}", "tenuto models pull")
        return
    from tenuto.host.process import ray_driver

    if in_pool and ray_driver() is None:
        yield _bad(name, "Ray is not installed beside Tenuto", "pip install tenuto-ray")
        return
    faults = [fault for entry in parts if entry not in in_pool for fault in _lacking(settings, entry)]
    try:
        upstream_keys.check({name: model}, os.environ)
    except OperatorError as error:
        faults.append(_bad(name, error.message, f'correct [models."{name}"] upstream_key_variable or _file'))
    yield from faults
    if not faults:
        weights = "weights verified" if weights_of(model.entry) else "needs no weights of ours"
        there = "in a Ray pool that was not asked" if in_pool else "interpreter runs"
        yield _good(name, f"{weights}, {there}")


def _lacking(settings: "Settings", entry: "EngineEntry") -> Iterator[CheckResult]:
    interpreter = _interpreter(settings, entry.model)
    if not _runs(interpreter):
        yield _bad(
            entry.model, f"{interpreter} does not run", f'correct [models."{entry.model}"] interpreter'
        )
    for path in entry.paths:
        if not Path(path).expanduser().exists():
            yield _bad(entry.model, f"{path} is not there", f'correct [models."{entry.model}"] options')


def _is_in_pool(settings: "Settings", model: str) -> bool:
    return model in settings.models and settings.models[model].ray is not None


def _interpreter(settings: "Settings", model: str) -> str:
    return (model in settings.models and settings.models[model].interpreter) or sys.executable


def _runs(interpreter: str) -> bool:
    try:
        subprocess.run([interpreter, "-c", "print(1)"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _good(what: str, state: str) -> CheckResult:
    return CheckResult(True, f"ok    {what}: {state}")


def _bad(what: str, fault: str, remedy: str) -> CheckResult:
    return CheckResult(False, f"FAIL  {what}: {fault} → {remedy}")
