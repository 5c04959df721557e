"""How a setting is declared, and what its value must be: a rule reads one value and names its faults."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

MICROS_PER_CNY = 1_000_000

T = TypeVar("T")


class Rule(Protocol):
    """What a setting's value must be."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        """The value as it is stored; its faults are added to `faults` under the setting's name."""


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer within inclusive bounds, or a text that is one, as variables have it."""

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


@dataclass(frozen=True, slots=True)
class Number:
    """A number within inclusive bounds, or a text that is one, as variables have it."""

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


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, bool):
            faults.append(f"{name}: {value!r} is not true or false")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    values: tuple[str, ...]

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if value not in self.values:
            faults.append(f"{name}: {value!r} is not one of {', '.join(self.values)}")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts."""

    def read(self, name: str, value: Any, faults: list[str]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            faults.append(f"{name}: {value!r} is not a list of texts")
            return ()
        return tuple(value)


@dataclass(frozen=True, slots=True)
class Some:
    """A list of some of a few words, perhaps of none."""

    values: tuple[str, ...]

    def read(self, name: str, value: Any, faults: list[str]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(item in self.values for item in value):
            faults.append(f"{name}: {value!r} is not a list of some of {', '.join(self.values)}")
            return ()
        return tuple(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; what may stand in it is checked where it is used."""

    def read(self, name: str, value: Any, faults: list[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            faults.append(f"{name}: is not a table")
            return {}
        return value


@dataclass(frozen=True, slots=True)
class Form:
    """A text of a form; `what` describes the form. A value that may hold a secret is not shown."""

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
    """An amount in CNY, written as a text so that no float touches money."""
    whole, _, places = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 9 and len(places) <= 6) or not (
        places == "" or (places.isascii() and places.isdigit())
    ):
        faults.append(f'{name}: {value!r} is not an amount; write a text such as "0.05", in CNY')
        return 0
    return int(whole) * MICROS_PER_CNY + int(places.ljust(6, "0") or 0)


@dataclass(frozen=True, slots=True)
class Amount:
    """CNY as text, so that no float touches money; stored as text, or in micros."""

    in_micros: bool = False

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        amount = micros(name, value, faults)
        return amount if self.in_micros else value


@dataclass(frozen=True, slots=True)
class Location:
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


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of a setting beside its type and its default."""

    rule: Rule
    meaning: str
    """As Markdown. `{range}` stands for the bounds."""
    named: str | None = None
    """Its variable, or its key in a model's table, unless that follows from its name."""


def declaration(rule: Rule, meaning: str, named: str | None = None) -> dict[str, Declaration]:
    """What a field of a dataclass of settings carries."""
    return {"declaration": Declaration(rule, meaning, named)}


def setting(default: T, rule: Rule, meaning: str, named: str | None = None) -> T:
    """A field with a default."""
    made: T = field(default=default, metadata=declaration(rule, meaning, named))
    return made


def declared(settings: type) -> Mapping[str, Declaration]:
    """The declarations of a dataclass by the names of its fields, in their order."""
    return {
        one.name: one.metadata["declaration"] for one in fields(settings) if "declaration" in one.metadata
    }


def no_setting(name: str, known: Iterable[str]) -> str:
    """The fault of a name that nothing has; what it may have meant, else all that there is."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return f"there is no such setting; {hint}"
