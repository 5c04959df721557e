"""How settings are declared, and what their values must be: a rule reads one value and reports its faults."""

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Protocol, get_origin, get_type_hints

from msgspec import Struct

MICROS_PER_CNY = 1_000_000


class Rule(Protocol):
    """What a setting's value must be."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        """The value as it is stored; its faults are added to `faults` under the setting's name."""


class Integer(Struct, frozen=True):
    """An integer within inclusive bounds, or a text of one, as in variables."""

    low: int
    high: int
    may_be_text: bool = True

    def read(self, name: str, value: Any, faults: list[str]) -> int:
        refused = bool | float if self.may_be_text else bool | float | str
        try:
            number = None if isinstance(value, refused) else int(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not self.low <= number <= self.high:
            faults.append(f"{name}: {value!r} is not an integer from {self.low} to {self.high}")
            return 0
        return number


class Number(Struct, frozen=True):
    """A number within inclusive bounds, or a text of one, as in variables."""

    low: float
    high: float
    may_be_text: bool = True

    def read(self, name: str, value: Any, faults: list[str]) -> float:
        refused = bool if self.may_be_text else bool | str
        try:
            number = None if isinstance(value, refused) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not self.low <= number <= self.high:
            faults.append(f"{name}: {value!r} is not a number from {self.low} to {self.high}")
            return 0
        return number


class Boolean(Struct, frozen=True):
    """True or false."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, bool):
            faults.append(f"{name}: {value!r} is not true or false")
        return value


class Choice(Struct, frozen=True):
    """One of a few words."""

    values: tuple[str, ...]

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if value not in self.values:
            faults.append(f"{name}: {value!r} is not one of {', '.join(self.values)}")
        return value


class Text(Struct, frozen=True):
    """A text that is not empty."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        return value


class Texts(Struct, frozen=True):
    """A list of texts."""

    def read(self, name: str, value: Any, faults: list[str]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            faults.append(f"{name}: {value!r} is not a list of texts")
            return ()
        return tuple(value)


class Some(Struct, frozen=True):
    """A list of words from a small set, possibly empty."""

    values: tuple[str, ...]

    def read(self, name: str, value: Any, faults: list[str]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(item in self.values for item in value):
            faults.append(f"{name}: {value!r} is not a list of some of {', '.join(self.values)}")
            return ()
        return tuple(value)


class Table(Struct, frozen=True):
    """A table; its content is checked where it is used."""

    def read(self, name: str, value: Any, faults: list[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            faults.append(f"{name}: is not a table")
            return {}
        return value


class Form(Struct, frozen=True):
    """A text of the form that `what` describes. A value that may hold a secret is not shown."""

    is_met: Callable[[str], bool]
    what: str
    may_be_secret: bool = False

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        elif not self.is_met(value):
            faults.append(f"{name}: {'this' if self.may_be_secret else repr(value)} is not {self.what}")
        return value


def micros(name: str, value: Any, faults: list[str]) -> int:
    """The micros of an amount in CNY, written as text so that no float touches money."""
    whole, _, places = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 9 and len(places) <= 6) or not (
        places == "" or (places.isascii() and places.isdigit())
    ):
        faults.append(f'{name}: {value!r} is not an amount; write a text such as "0.05", in CNY')
        return 0
    return int(whole) * MICROS_PER_CNY + int(places.ljust(6, "0") or 0)


class Amount(Struct, frozen=True):
    """CNY as text, so that no float touches money; stored as text, or in micros."""

    in_micros: bool = False

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        amount = micros(name, value, faults)
        return amount if self.in_micros else value


class Location(Struct, frozen=True):
    """A file or a folder."""

    def read(self, name: str, value: Any, faults: list[str]) -> Path:
        if isinstance(value, Path) or (isinstance(value, str) and value):
            try:
                return Path(value).expanduser()
            except RuntimeError:
                faults.append(
                    f"{name}: there is no home folder for {value}; name another folder, or set HOME"
                )
                return Path()
        faults.append(f"{name}: {value!r} is not a path")
        return Path()


class Declaration(Struct, frozen=True):
    """What is declared about a setting besides its type and its default."""

    rule: Rule
    meaning: str
    """In Markdown. `{range}` stands for the bounds."""
    named: str | None = None
    """Its variable, or its key in a model's table, unless derived from its name."""


def declared(settings: type[Struct]) -> Mapping[str, Declaration]:
    """The declarations of a struct by field name, from `Annotated[TYPE, rule, meaning, named]`.

    `named` may be left out.
    """
    types = get_type_hints(settings, include_extras=True)
    return {
        name: Declaration(*types[name].__metadata__)
        for name in settings.__struct_fields__
        if get_origin(types[name]) is Annotated
    }


def are_installed(*modules: str) -> bool:
    """Whether an extra is installed. Imports only the packages above its modules, which are empty."""
    try:
        return None not in [find_spec(module) for module in modules]
    except ModuleNotFoundError:
        return False


def no_setting(name: str, known: Iterable[str]) -> str:
    """The fault for an unknown name, with the name that was probably meant or else all names."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return f"there is no such setting; {hint}"
