"""Rules of fields that only the studio's requests have; the common ones stand in `kinds.fields`."""

from dataclasses import dataclass
from typing import Any

from tenuto.bodies.fields import MAX_FAULTS_NAMED, Rule, wrong_type
from tenuto.errors import Fault


@dataclass(frozen=True, slots=True)
class OrNull:
    """What another rule says, or null."""

    rule: Rule

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        return None if value is None else self.rule.read(param, value, faults)


@dataclass(frozen=True, slots=True)
class Strings:
    """An array of strings, none of them empty."""

    most: int

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not list:
            faults.append(wrong_type(param, value, "an array of strings"))
        elif len(value) > self.most:
            faults.append(
                Fault(param, "wrong_length", f"has {len(value)} items; at most {self.most} are allowed")
            )
        else:
            wrong = [i for i, item in enumerate(value) if type(item) is not str or not item]
            faults += [wrong_type(f"{param}[{i}]", value[i], "a string") for i in wrong[:MAX_FAULTS_NAMED]]
        return value
