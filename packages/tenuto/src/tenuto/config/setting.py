"""How a setting is read: by a rule, as a field of a body is. Here are also the rules that only settings need.

A fault with the code of SettingsInvalid is said as it is, any other as `VALUE is not EXPECTED`.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from tenuto.errors import Fault, SettingsInvalid
from tenuto.rules import Form, Integer, Number, PlainRule, Rule, wrong_type

MICROS_PER_CNY = 1_000_000


class Amount(Struct, frozen=True):
    """CNY as text, so that no float touches money; stored as text, or in micros."""

    in_micros: bool = False
    expected = 'an amount; write a text such as "0.05", in CNY'

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        whole, _, places = value.partition(".") if isinstance(value, str) else ("", "", "")
        digits = whole + places
        if not (whole and digits.isascii() and digits.isdigit() and len(whole) <= 9 and len(places) <= 6):
            faults.append(wrong_type(param, value, self.expected))
            return 0
        return int(whole) * MICROS_PER_CNY + int(places.ljust(6, "0")) if self.in_micros else value


def read(rule: Rule, param: str, value: Any, faults: list[Fault], *, may_be_text: bool = True) -> Any:
    """The value as it is stored; a number may be a text, as in variables. Lists become tuples."""
    found: list[Fault] = []
    stored = rule.read(param, _number(rule, value) if may_be_text else value, found)
    if found and not any(one.code == SettingsInvalid.code for one in found):
        assert isinstance(rule, PlainRule)
        is_text = not isinstance(rule, Form) or (isinstance(value, str) and value)
        found = [fault(param, f"{value!r} is not {rule.expected if is_text else 'a text'}")]
    faults.extend(found)
    return tuple(stored) if isinstance(stored, list) else stored


def fault(param: str, message: str) -> Fault:
    """What is wrong with a setting, or with a file of them."""
    return Fault(param, SettingsInvalid.code, message)


def are_installed(*modules: str) -> bool:
    """Whether an extra is installed. Imports only the packages above its modules, which are empty."""
    try:
        return None not in [find_spec(module) for module in modules]
    except ModuleNotFoundError:
        return False


def no_setting(param: str, name: str, known: Iterable[str]) -> Fault:
    """The fault for an unknown name, with the name that was probably meant or else all names."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return fault(param, f"there is no such setting; {hint}")


def _number(rule: Rule, value: Any) -> Any:
    """The number that a text is, if the rule is for one."""
    kind = int if isinstance(rule, Integer) else float if isinstance(rule, Number) else str
    try:
        return kind(value) if isinstance(value, str) else value
    except ValueError:
        return value
