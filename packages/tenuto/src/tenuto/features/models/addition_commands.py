"""`tenuto admin models add` and `remove`: add a model by name, from a hub to a tested engine, or remove it.

Adding is a series of repeatable steps: ask the hub, ask the operator, pin, download, test, enable. Whatever
interrupts it, the same command continues. The model is offered from the next start on. An update changes
nothing of a model that works before its own weights have passed the test.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.command.common import json_line, readable_size, report, tell
from tenuto.command.options import add_location, location_of
from tenuto.errors import Fault, OperatorError, SettingsInvalid
from tenuto.features.models.adapter_commands import python_path, toml
from tenuto.features.models.commands import bring
from tenuto_client.commands.console import Console
from tenuto_client.commands.exits import USAGE
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import is_chinese, t, translated
from tenuto_engine import processor

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.features.models.additions import Addition
    from tenuto.features.models.hub import Listing
    from tenuto.features.models.manifest import Weight
    from tenuto.host.host import HostResult
    from tenuto.host.manifests import Manifest
    from tenuto.kind.model import Model

TEST_S = 900.0
"""How long the test run may take."""
QUESTION = "Answer in one short sentence: what is the capital of France?"
ANSWER_TOKENS = 24
RECORDING = "edith.wav"
"""A voice's recording: one English sentence, three seconds long."""
EVIDENCE_LINES = 8


def add(parser: Parser, name: str) -> None:
    """The options of both commands."""
    parser.add_argument("name", metavar="NAME", help=t("as `tenuto admin models list` shows it"))
    if name == "add":
        parser.add_argument("--yes", action="store_true", help=t("download without asking"))
        parser.add_argument(
            "--accept-licence",
            metavar="LICENCE",
            help=t("the name of the licence, which you have read, if the model requires that"),
        )
        parser.add_argument(
            "--interpreter",
            metavar="PYTHON",
            type=python_path,
            help=t("the Python that has the engine's libraries"),
        )
        parser.add_argument(
            "--update",
            action="store_true",
            help=t("take the hub's newest revision instead of the one that was pinned"),
        )
    else:
        parser.add_argument("--yes", action="store_true", help=t("remove without asking"))
    parser.add_json()
    add_location(parser)
    parser.set_defaults(run=_add if name == "add" else _remove)


class _Plan(Struct, frozen=True):
    """What is about to be added, as it is shown to the operator for confirmation."""

    addition: "Addition"
    settings: "Settings"
    engine: "Manifest"
    interpreter: str | None
    pinned: "tuple[Weight, ...] | None"
    """None: the hub was asked instead, and returned `listings`."""
    listings: "tuple[Listing, ...]"

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.pinned or self.listings)

    @property
    def sources(self) -> list[dict[str, str]]:
        commits = [one.revision for one in self.pinned] if self.pinned else [o.commit for o in self.listings]
        repositories = [one.repository for one in self.addition.repository]
        return [
            {"repository": repository, "revision": commit}
            for repository, commit in zip(repositories, commits, strict=True)
        ]

    def described(self, **more: Any) -> dict[str, Any]:
        """The plan as JSON fields, for scripts."""
        one = self.addition
        return {
            "name": one.name,
            "model": one.model,
            "kind": one.kind,
            "licence": one.licence.name,
            "licence_url": one.licence.url,
            "size_bytes": self.size_bytes,
            "memory_mib": one.memory_mib,
            "sources": self.sources,
            **more,
        }


def _add(options: argparse.Namespace, console: Console) -> int:
    """Show, ask, download, test, enable."""
    from tenuto.features.models import additions
    from tenuto.process.data_opening import make_folder

    settings = location_of(options).settings()
    addition = additions.named(options.name)
    engine = _engine(addition, options.interpreter)
    make_folder(settings.folder)
    with _alone(settings):
        plan = _plan(addition, settings, engine, options)
        if not options.update and _is_added(plan):
            report(_result(plan, console, state="unchanged"))
            return 0
        _show(plan)
        _refuse_without_space(plan)
        if (code := _ask(plan, options, console)) is not None:
            return code
        weights = plan.pinned or _newest(plan)
        names = [weight.name for weight in weights]
        bring(names, settings.cache, additions.manifest_with(weights, settings))
        table = _table(plan, weights)
        answer = _tested(plan, table)
        additions.write(additions.table_file(settings, addition), _as_file(addition, table).encode())
        additions.pin(settings, addition, weights)
        _drop_weights(plan, but=names)
        report(_result(plan, console, state="added", self_test=answer))
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    """Disable the model and delete its weights; the pin stays."""
    from tenuto.features.models import additions
    from tenuto.features.models.downloads import bytes_below

    settings = location_of(options).settings()
    addition = additions.named(options.name)
    file = additions.table_file(settings, addition)
    names = additions.weights_in(settings.cache, addition)
    if not file.exists() and not names:
        raise OperatorError(f"{addition.name} is not added; tenuto admin models list shows what is")
    sizes = {settings.cache / name: bytes_below(settings.cache / name) for name in names}
    size = sum(sizes.values())
    for place, size_bytes in sizes.items():
        tell(f"{place}  {readable_size(size_bytes)}")
    if not options.yes:
        if not console.can_ask:
            console.error(t("nothing was removed: nobody is here to say yes; add --yes"))
            return USAGE
        if not console.confirm(t("Remove this for good?")):
            raise OperatorError(t("nothing was removed"))
    with _alone(settings):
        from tenuto.features.models.cache import remove

        file.unlink(missing_ok=True)
        for name in names:
            remove(settings.cache, name)
    described = {"name": addition.name, "model": addition.model, "state": "removed", "size_bytes": size}
    line = f"{addition.name} is removed; a service that is running lists {addition.model} until it restarts"
    report(json_line(described) if console.as_json else line)
    return 0


def _engine(addition: "Addition", interpreter: str | None) -> "Manifest":
    """The adapter that runs it. OperatorError: it is not installed, or cannot run on this machine."""
    from tenuto.features.models.adapters import find
    from tenuto.host.manifests import ManifestInvalid

    try:
        engine = find(addition.engine, interpreter)
    except ManifestInvalid as error:
        raise OperatorError(
            f"the engine {addition.engine}, which runs {addition.name}, is not installed: {addition.install}"
        ) from error
    if engine.own_interpreter and interpreter is None:
        raise OperatorError(
            f"{addition.name} runs in a Python of its own: {addition.install}, then name that Python with"
            " --interpreter"
        )
    if fault := processor.fault(engine.processors):
        raise OperatorError(f"this machine cannot run {addition.name}: {fault}")
    return engine


@contextmanager
def _alone(settings: "Settings") -> Iterator[None]:
    """Let one command at a time add or remove models."""
    from tenuto.features.models.additions import folder_of
    from tenuto.features.models.cache import only_one

    def wait() -> None:
        tell("another command is adding or removing a model; waiting for it")

    with only_one(folder_of(settings), wait):
        yield


def _plan(
    addition: "Addition", settings: "Settings", engine: "Manifest", options: argparse.Namespace
) -> _Plan:
    """What is known about the weights: what was pinned before, or else what the hub reports now."""
    from tenuto.features.models import additions, hub

    pinned = None if options.update else additions.pin_of(settings, addition)
    listings: list[Listing] = []
    if pinned is None:
        tell(t("asking the hub for {name}", name=addition.name))
        listings = [hub.listing(one.repository, one.revision, one.patterns) for one in addition.repository]
    return _Plan(addition, settings, engine, options.interpreter, pinned, tuple(listings))


def _is_added(plan: _Plan) -> bool:
    """Whether there is nothing to do: the table is the same, and all weights are verified."""
    from tenuto.features.models import additions
    from tenuto.features.models.cache import is_verified

    file = additions.table_file(plan.settings, plan.addition)
    if plan.pinned is None or not file.exists():
        return False
    manifest = additions.manifest_of(plan.settings)
    is_same = file.read_text("utf-8") == _as_file(plan.addition, _table(plan, plan.pinned))
    return is_same and all(is_verified(plan.settings.cache, one.name, manifest) for one in plan.pinned)


def _show(plan: _Plan) -> None:
    one = plan.addition
    lines = [
        f"{one.name}: {one.model}. {one.summary_zh if is_chinese() else one.summary}",
        t("  licence  {name}, {url}", name=one.licence.name, url=one.licence.url),
        t(
            "  size     {size} on disk, in {folder}",
            size=readable_size(plan.size_bytes),
            folder=plan.settings.cache,
        ),
        t("  memory   about {size} while it is loaded", size=readable_size(one.memory_mib << 20)),
    ]
    lines += [
        t("  source   {repository} at revision {revision}", **source)
        + ("" if plan.pinned is None else t(", pinned before"))
        for source in plan.sources
    ]
    for line in lines:
        tell(line)


def _refuse_without_space(plan: _Plan) -> None:
    from tenuto.features.models.additions import manifest_of
    from tenuto.features.models.pull import needed_bytes, refuse_without_space

    needed = plan.size_bytes
    if plan.pinned is not None:
        needed = needed_bytes(manifest_of(plan.settings), plan.pinned, plan.settings.cache)
    refuse_without_space(needed, plan.settings.cache)


def _ask(plan: _Plan, options: argparse.Namespace, console: Console) -> int | None:
    """None if the operator confirms and accepts the licence; else the exit code, with the reason printed."""
    licence = plan.addition.licence
    accepted = options.accept_licence
    if accepted not in (None, licence.name):
        console.error(t("the licence is {name!r}; see {url}", name=licence.name, url=licence.url))
        return USAGE
    must_accept = licence.needs_acceptance and accepted is None
    if options.yes and not must_accept:
        return None
    if options.yes or not console.can_ask:
        what = t("nothing was downloaded: nobody is here to say yes; add --yes")
        if must_accept:
            what = t(
                "nothing was downloaded: read the licence at {url}, then add --accept-licence {name!r}",
                name=licence.name,
                url=licence.url,
            )
        console.error(what)
        return USAGE
    question = t("Download, test and enable it?")
    if must_accept:
        question = t("Do you accept this licence? Download, test and enable the model?")
    if not console.confirm(question):
        raise OperatorError("nothing was downloaded")
    return None


def _newest(plan: _Plan) -> "tuple[Weight, ...]":
    """The commit, sizes and hashes of what the hub has now, for every later download.

    They are pinned at once for a new model, so that the next try continues with them. An update is pinned
    once it has passed its test; until then its weights have names of their own, and the old ones stay.
    """
    from tenuto.features.models import additions, hub

    one, settings = plan.addition, plan.settings
    weights = tuple(
        hub.pinned(one.weight_name(repository), one.licence.name, listed, is_file=bool(repository.file))
        for repository, listed in zip(one.repository, plan.listings, strict=True)
    )
    if additions.is_new(settings, one):
        additions.pin(settings, one, weights)
        return weights
    names: dict[str, str] = {}
    with suppress(OperatorError):  # A pin that cannot be read is replaced.
        names = {weight.sha256: weight.name for weight in additions.pin_of(settings, one) or ()}
    return tuple(
        replace(weight, name=names.get(weight.sha256, f"{weight.name}.{weight.sha256[:12]}"))
        for weight in weights
    )


def _drop_weights(plan: _Plan, but: list[str]) -> None:
    """Remove the weights of the revisions before, and of updates that failed their test."""
    from tenuto.features.models.additions import weights_in
    from tenuto.features.models.cache import remove

    for name in weights_in(plan.settings.cache, plan.addition):
        if name not in but:
            remove(plan.settings.cache, name)


def _table(plan: _Plan, weights: "tuple[Weight, ...]") -> dict[str, Any]:
    from tenuto.features.models.additions import table_of

    licence = plan.engine.licence
    return table_of(
        plan.addition,
        weights,
        plan.settings,
        interpreter=plan.interpreter,
        accepted=licence.name if licence.needs_acceptance else None,
    )


def _as_file(addition: "Addition", table: dict[str, Any]) -> str:
    lines = [
        f"# Written by `tenuto admin models add {addition.name}`; `… remove {addition.name}` deletes it.",
        "# What your own file of settings says of this model wins, key by key.",
        f"[models.{toml(addition.model)}]",
        *(f"{key} = {toml(value)}" for key, value in table.items()),
    ]
    return "\n".join(lines) + "\n"


def _tested(plan: _Plan, table: dict[str, Any]) -> str:
    """The model's output for one question, sentence or recording. OperatorError: it is not enabled."""
    from tenuto.config.model_settings import read_models
    from tenuto.features.models.additions import table_file
    from tenuto.kind.model import models

    name = plan.addition.model
    faults: list[Fault] = []
    added = read_models({name: table}, faults)
    settings = replace(plan.settings, models={**added, **_own(plan, name)})
    tell(t("testing {name} on its engine", name=plan.addition.name))
    began_s = time.monotonic()
    try:
        if faults:
            raise SettingsInvalid("\n".join(map(str, faults)))
        answer = self_test(models(settings)[name], settings)
    except (SelfTestFailed, SettingsInvalid) as error:
        if table_file(plan.settings, plan.addition).exists():
            raise OperatorError(
                f"{plan.addition.name} failed its test and stays as it was: {error.message}. What was"
                " downloaded is kept: run the same command to test it again"
            ) from error
        raise OperatorError(
            f"{plan.addition.name} failed its test and is not enabled: {error.message}. Its weights are kept:"
            f" run the same command to test it again, or tenuto admin models remove {plan.addition.name}"
        ) from error
    return t("{answer} ({seconds:.1f} s)", answer=answer, seconds=time.monotonic() - began_s)


def _own(plan: _Plan, name: str) -> dict[str, Any]:
    """The settings' other models: a composed model may name them."""
    return {other: own for other, own in plan.settings.models.items() if other != name}


class SelfTestFailed(OperatorError):
    """The model did not give what it must; the message says what."""


def self_test(model: "Model", settings: "Settings") -> str:
    """Run once on the engine, started as the service starts it; returns a summary of the result."""
    from tenuto_engine.conformance import Nonconformance, Subject
    from tenuto_engine.conformance.process import Outcome
    from tenuto_engine.conformance.results import check_result
    from tenuto_engine.conformance.samples import sample_of

    entry = model.entry
    subject = Subject(
        entry.engine, entry.kind, languages=entry.languages, role=entry.role, parameters=entry.defaults
    )
    sample = sample_of(subject)
    parameters, inputs = _sample(entry.kind, dict(sample.parameters), dict(sample.inputs))
    result = _run(model, settings, parameters, inputs)
    header = {name: getattr(result, name) for name in ("media_type", "metadata", "duration_ms")}
    try:
        check_result(entry.kind, Outcome("result", header, result.content), parameters, inputs)
    except Nonconformance as error:
        raise SelfTestFailed(str(error)) from error
    return _in_words(entry.kind, result)


def _run(
    model: "Model", settings: "Settings", parameters: dict[str, Any], inputs: dict[str, bytes]
) -> "HostResult":
    from tenuto.features.chat import embedded
    from tenuto.host.child_host import ChildHost
    from tenuto.host.host import HostError
    from tenuto.kind.kinds import CHAT
    from tenuto.worker import engines

    own = embedded.spec_of(model, settings) if model.kind == CHAT else engines.spec_of(model.entry, settings)
    host = ChildHost(own)
    try:
        host.load()
        return host.run(
            parameters,
            inputs,
            on_segment=lambda *_: None,
            on_progress=lambda _: None,
            deadline_s=TEST_S,
        )
    except HostError as error:
        # The evidence may be shown: this is the operator's own terminal, and the only text in it is ours.
        for line in error.evidence.strip().splitlines()[-EVIDENCE_LINES:]:
            tell(line)
        raise SelfTestFailed(error.message.rstrip(".")) from error
    finally:
        host.close()


def _sample(
    kind: str, parameters: dict[str, Any], inputs: dict[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The conformance suite's plain run, but with a real question, and with speech instead of a hum."""
    if kind == "chat":
        messages = [{"role": "user", "content": QUESTION}]
        return {**parameters, "max_tokens": ANSWER_TOKENS}, {"messages": json_line(messages).encode()}
    if kind == "recognition":
        import numpy as np
        import soxr

        from tenuto.features.decoding.wav import read_pcm16_wav

        wav = read_pcm16_wav((files("tenuto.features.voices") / "recordings" / RECORDING).read_bytes())
        spoken = soxr.resample(np.frombuffer(wav.frames, "<i2"), wav.sample_rate, 16_000)
        return parameters, {**inputs, "audio": np.asarray(spoken, "<i2").tobytes()}
    return parameters, inputs


def _in_words(kind: str, result: "HostResult") -> str:
    """A summary of the result for the operator to judge. SelfTestFailed: there is no text."""
    if kind == "recognition":
        import msgspec

        segments = msgspec.json.decode(result.content)["segments"]
        text = " ".join(segment["text"].strip() for segment in segments)
    elif kind == "chat":
        text = " ".join(result.content.decode().split())
    else:
        return f"{result.media_type}, {readable_size(len(result.content))}"
    if not text.strip():
        raise SelfTestFailed("it gave no text")
    return text


def _result(plan: _Plan, console: Console, *, state: str, self_test: str | None = None) -> str:
    if console.as_json:
        return json_line(plan.described(state=state, self_test=self_test))
    if state == "unchanged":
        return f"{plan.addition.name} is added already, as {plan.addition.model}"
    tested = t("the test gave: {answer}", answer=self_test)
    done = translated(
        f"{plan.addition.name} is added as {plan.addition.model}; restart the service to offer it"
    )
    return f"{tested}\n{done}"
