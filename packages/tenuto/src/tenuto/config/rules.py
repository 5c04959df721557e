"""What the values of settings must be: a rule reads one value and names what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tenuto.config.models import micros, read_models


class Rule(Protocol):
    """What a setting's value must be."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        """The value as it is kept; what is wrong with it is added to `faults`, under the setting's name."""


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer within inclusive bounds, or a text that is one; neither true nor 1.5 is made one."""

    low: int
    high: int

    def read(self, name: str, value: Any, faults: list[str]) -> int:
        try:
            number = None if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not self.low <= number <= self.high:
            faults.append(f"{name}: {value!r} is not an integer from {self.low} to {self.high}")
            return 0
        return number


@dataclass(frozen=True, slots=True)
class Number:
    """A number within inclusive bounds, or a text that is one."""

    low: float
    high: float

    def read(self, name: str, value: Any, faults: list[str]) -> float:
        try:
            number = None if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not self.low <= number <= self.high:
            faults.append(f"{name}: {value!r} is not a number from {self.low} to {self.high}")
            return 0
        return number


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    values: tuple[str, ...]

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if value not in self.values:
            faults.append(f"{name}: {value!r} is none of {', '.join(self.values)}")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        return value


@dataclass(frozen=True, slots=True)
class Form:
    """A text of a form, which is named where it is not met."""

    is_met: Callable[[str], bool]
    what: str

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        elif not self.is_met(value):
            faults.append(f"{name}: {value!r} is not {self.what}")
        return value


@dataclass(frozen=True, slots=True)
class Amount:
    """CNY as text, so that no float touches money."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(f"{name}: {value!r} is not a text")
        else:
            micros(name, value, faults)
        return value


@dataclass(frozen=True, slots=True)
class Location:
    """A file or a folder."""

    def read(self, name: str, value: Any, faults: list[str]) -> Path:
        if isinstance(value, Path) or (isinstance(value, str) and value):
            return Path(value).expanduser()
        faults.append(f"{name}: {value!r} is not a path")
        return Path()


@dataclass(frozen=True, slots=True)
class Tables:
    """A table for each model; what may stand in one is in `config.models`."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        return read_models(value, faults)
