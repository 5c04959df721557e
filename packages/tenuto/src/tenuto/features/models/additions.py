"""Models that an operator may add by name, and what the data folder stores about those that were added.

`additions.toml` says what each is and which repositories on the hub hold it. The folder `models` in the data
folder has two files for each: `pins/NAME.json`, the weights with the commit and hashes that the first
download pinned, which later downloads must match; and `NAME.toml`, the table of settings that enables the
model, which `config.load` reads. Downloads nothing and starts nothing.
"""

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from tenuto.config import ADDED, Settings
from tenuto.errors import OperatorError
from tenuto.features.models.cache import sync_folder
from tenuto.features.models.manifest import Manifest, Repository, Weight, WeightName, shipped
from tenuto.host.manifests import Licence

PINS = "pins"


class HubRepository(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One repository on the hub that holds a weight of the model."""

    option: str
    """The engine's option that names the folder or file."""
    repository: Repository
    revision: str = "main"
    """A branch, a tag or a commit; the first download pins the commit."""
    file: str = ""
    """If set, the weight is this one file."""
    files: tuple[str, ...] = ()
    """Otherwise the weight is a folder with the files that match these patterns."""

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.file,) if self.file else self.files


class Addition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model that can be added."""

    name: WeightName
    """Its name in commands."""
    model: str
    """Its public name, for callers."""
    kind: str
    engine: str
    """The adapter that runs it."""
    install: str
    """The command that installs the adapter's package."""
    summary: str
    summary_zh: str
    languages: tuple[str, ...]
    size_bytes: int
    """Approximate size of all its weights."""
    memory_mib: int
    licence: Licence
    repository: tuple[HubRepository, ...]
    options: dict[str, Any] = {}
    """The engine's other options."""
    defaults: dict[str, int | float] = {}
    honoured: tuple[str, ...] | None = None
    role: str | None = None

    def weight_name(self, repository: HubRepository) -> str:
        """The name of that repository's weight in the cache; an update's has digits of its hash too."""
        first = repository == self.repository[0]
        return self.name if first else f"{self.name}.{repository.option}"


@functools.cache
def additions() -> Mapping[str, Addition]:
    """Every model that can be added, by its name in commands."""
    text = (files("tenuto.features.models") / "additions.toml").read_text("utf-8")
    listed = msgspec.convert(tomllib.loads(text)["addition"], tuple[Addition, ...])
    return {one.name: one for one in listed}


def named(name: str) -> Addition:
    """The model with this name or public name. OperatorError suggests the nearest."""
    known = additions()
    by_model = {one.model: one for one in known.values()}
    if (one := known.get(name) or by_model.get(name)) is not None:
        return one
    names = {
        **{each.casefold(): each for each in known},
        **{m.casefold(): by_model[m].name for m in by_model},
    }
    near = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.4)
    meant = ", ".join(dict.fromkeys(names[each] for each in near)) or ", ".join(known)
    raise OperatorError(f"there is no model {name} to add; did you mean {meant}?")


def folder_of(settings: Settings) -> Path:
    """The folder for added models in the data folder."""
    return settings.folder / ADDED


def table_file(settings: Settings, addition: Addition) -> Path:
    """The file that enables the model as long as it exists."""
    return folder_of(settings) / f"{addition.name}.toml"


def pin_of(settings: Settings, addition: Addition) -> tuple[Weight, ...] | None:
    """What the first download pinned; None before it. OperatorError: the file cannot be read."""
    file = _pin_file(settings, addition.name)
    try:
        return msgspec.json.decode(file.read_bytes(), type=tuple[Weight, ...])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise OperatorError(
            f"{file} cannot be read: {error}; with --update the hub is asked for its files again"
        ) from error


def pin(settings: Settings, addition: Addition, weights: Sequence[Weight]) -> None:
    """Store the weights' commit and hashes; every later download must match them."""
    write(_pin_file(settings, addition.name), msgspec.json.format(msgspec.json.encode(list(weights))))


def is_new(settings: Settings, addition: Addition) -> bool:
    """Whether nothing of it was pinned or enabled before, so that nothing can depend on its weights."""
    files = _pin_file(settings, addition.name), table_file(settings, addition)
    return not any(file.exists() for file in files)


def manifest_of(settings: Settings) -> Manifest:
    """All weights: those of installed engines, and those that were pinned here."""
    weights = [weight for one in additions().values() for weight in pin_of(settings, one) or ()]
    return shipped().joined(manifest_with(weights, settings))


def manifest_with(weights: Sequence[Weight], settings: Settings) -> Manifest:
    """These weights of models that were added."""
    by_name = {weight.name: weight for weight in weights}
    return Manifest(by_name, {}, dict.fromkeys(by_name, settings.folder))


def weights_in(cache: Path, addition: Addition) -> list[str]:
    """The names of its weights in the cache, those of updates included."""
    first = "|".join(re.escape(addition.weight_name(one)) for one in addition.repository)
    ours = re.compile(rf"({first})(\.[0-9a-f]{{12}})?")
    return sorted(path.name for path in cache.glob(f"{addition.name}*") if ours.fullmatch(path.name))


def table_of(
    addition: Addition,
    weights: Sequence[Weight],
    settings: Settings,
    *,
    interpreter: str | None,
    accepted: str | None,
) -> dict[str, Any]:
    """The table `[models."…"]` of a model whose weights are in the cache."""
    paths = {
        repository.option: str((settings.cache / weight.name).absolute())
        for repository, weight in zip(addition.repository, weights, strict=True)
    }
    optional = {
        "interpreter": interpreter,
        "accept_licence": accepted,
        "role": addition.role,
        "honoured": None if addition.honoured is None else list(addition.honoured),
        "defaults": addition.defaults or None,
    }
    return {
        "adapter": addition.engine,
        "revision": weights[0].revision[:12],
        "languages": list(addition.languages),
        "memory_mib": addition.memory_mib,
        "options": {**addition.options, **paths},
        **{key: value for key, value in optional.items() if value is not None},
    }


def write(file: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("wb") as output:
        output.write(content)
        output.flush()
        # Its name must not be durable before its bytes are.
        os.fsync(output.fileno())
    temporary.replace(file)
    sync_folder(file.parent)


def _pin_file(settings: Settings, name: str) -> Path:
    return folder_of(settings) / PINS / f"{name}.json"
