"""The rules for values that others write, in bodies, queries and settings: one language, written as data.

A rule reads one value: it collects its faults and returns it in the form in which it is stored.
Nothing here knows a particular field or where a value came from. A query and a setting (`api.query`,
`config.setting`) make a number of a text before a rule reads it, and say faults in their own words.

Fault codes: `required`, `unknown_name`, `wrong_type`, `out_of_range`, `empty`, `too_long`, `white_space`,
`not_allowed`, `wrong_length`, `conflict`, `requires`, `too_many_faults`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Protocol, get_origin, get_type_hints, runtime_checkable

import msgspec

from tenuto.errors import Fault
from tenuto.strict_json import Exact

# So that a hostile request gets no long response: this many faults of one sort are named, the rest counted.
MAX_FAULTS_NAMED = 16
MAX_SHOWN = 40

# The characters with the property White_Space in Unicode's PropList.txt; U+001C to U+001F and U+FEFF lack it.
WHITE_SPACE = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_JSON_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    Exact: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class Rule(Protocol):
    """What a value must be."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        """The value as it is stored; its faults are added to `faults` under the name `param`."""


@runtime_checkable
class PlainRule(Rule, Protocol):
    """A rule that a few words say in full, as queries and settings do."""

    @property
    def expected(self) -> str:
        """Such as `an integer from 0 to 30`."""


class Field(msgspec.Struct, frozen=True):
    """One field of an object, or one setting: its name, its rule, and its default."""

    name: str
    rule: Rule
    meaning: str
    """Of a setting in Markdown; `{range}` stands for the bounds."""
    default: Any = None
    required: bool = False
    named: str | None = None
    """A setting's variable, or its key in a model's table, unless derived from its name."""


class Boolean(msgspec.Struct, frozen=True):
    """`true` or `false`, with no substitutes."""

    expected = "true or false"

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not bool:
            faults.append(wrong_type(param, value, self.expected))
        return value


class Integer(msgspec.Struct, frozen=True):
    """A whole number, also if written `30.0` or `3e1`, within inclusive bounds, optionally in steps."""

    minimum: int
    maximum: int
    unit: str = ""
    step: int = 1

    @property
    def expected(self) -> str:
        return f"an integer from {self.minimum} to {self.maximum}"

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        # A float of this size is a whole number of more digits than `parse` makes an int of.
        if type(value) is not int and not (isinstance(value, float) and abs(value) >= 1e20):
            faults.append(wrong_type(param, value, "an integer"))
        elif not self.minimum <= value <= self.maximum:
            faults.append(_out_of_range(param, value, self.minimum, self.maximum, self.unit))
        elif value % self.step:
            allowed = f"a multiple of {self.step} from {self.minimum} to {self.maximum}"
            faults.append(Fault(param, "out_of_range", f"is {value}; it must be {allowed}"))
        return value


class Number(msgspec.Struct, frozen=True):
    """A number in either form (`1` or `1.0`), within inclusive bounds; stored as a float."""

    minimum: float
    maximum: float

    @property
    def expected(self) -> str:
        return f"a number from {self.minimum} to {self.maximum}"

    def read(self, param: str, value: Any, faults: list[Fault]) -> float | None:
        if not isinstance(value, float) and type(value) is not int:
            faults.append(wrong_type(param, value, "a number"))
        # A NaN is within no bounds, so it is refused here too.
        elif not self.minimum <= value <= self.maximum:
            faults.append(_out_of_range(param, value, self.minimum, self.maximum, ""))
        else:
            return float(value)
        return None


class Text(msgspec.Struct, frozen=True):
    """A string, measured in UTF-8 bytes or in characters; never trimmed or rewritten."""

    maximum: int
    measure: Literal["bytes", "characters"]
    ends_with_white_space: bool = True
    may_be_blank: bool = True
    """Whether it may be only white space: a separator may, a text for a model or a person may not."""
    may_be_empty: bool = False
    """Whether it may be the empty string."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(wrong_type(param, value, "a string"))
            return value
        in_characters = self.measure == "characters"
        size = len(value if in_characters else value.encode("utf-8", "surrogatepass"))
        unit = "characters" if in_characters else "bytes of UTF-8"
        if size > self.maximum:
            faults.append(Fault(param, "too_long", f"is {size} {unit}; at most {self.maximum} are allowed"))
        if not value and not self.may_be_empty:
            faults.append(Fault(param, "empty", f"is empty; from 1 to {self.maximum} {unit} are allowed"))
        if value and not self.may_be_blank and all(mark in WHITE_SPACE for mark in value):
            faults.append(Fault(param, "empty", "contains only white space"))
        if value and not self.ends_with_white_space and (value[0] in WHITE_SPACE or value[-1] in WHITE_SPACE):
            faults.append(_white_space_at_ends(param, value))
        return value


class Texts(msgspec.Struct, frozen=True):
    """An array of strings, possibly empty; those beyond a limit are counted, not checked."""

    maximum: int | None
    item: Rule
    expected: str = "an array of strings"

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not list:
            faults.append(wrong_type(param, value, self.expected))
            return value
        if self.maximum is not None and len(value) > self.maximum:
            message = f"has {len(value)} items; at most {self.maximum} are allowed"
            faults.append(Fault(param, "too_long", message))
        return read_items(self.item, param, value[: self.maximum], faults)


class Choice(msgspec.Struct, frozen=True):
    """One of a few strings."""

    values: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.values)

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(wrong_type(param, value, self.expected))
        elif value not in self.values:
            faults.append(Fault(param, "not_allowed", f"is {quoted(value)}; {self.expected} is expected"))
        return value


class Form(msgspec.Struct, frozen=True):
    """A string of a form: not empty, and what `is_met` asks for."""

    expected: str
    is_met: Callable[[str], bool] = bool

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(wrong_type(param, value, "a string"))
        elif not value or not self.is_met(value):
            faults.append(Fault(param, "not_allowed", f"is {quoted(value)}; {self.expected} is expected"))
        return value


def declared(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a struct that are typed `Annotated[TYPE, rule, meaning]` (a setting: or also `named`)."""
    types = get_type_hints(struct, include_extras=True)
    fields = []
    for attribute in msgspec.structs.fields(struct):
        if get_origin(types[attribute.name]) is Annotated:
            rule, meaning, *named = types[attribute.name].__metadata__
            default = None if attribute.default is msgspec.NODEFAULT else attribute.default
            fields.append(Field(attribute.name, rule, meaning, default, attribute.required, *named))
    return tuple(fields)


def by_name(fields: Iterable[Field]) -> Mapping[str, Field]:
    """Fields by name."""
    return {field.name: field for field in fields}


def read_fields(
    fields: Mapping[str, Field], value: Mapping[str, Any], prefix: str, faults: list[Fault]
) -> dict[str, Any]:
    """The valid fields of an object, as they are stored. Names in faults begin with `prefix`."""
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for name, sent in value.items():
        field = fields.get(name)
        if field is None:
            unknown.append(name)
            continue
        before = len(faults)
        read = field.rule.read(prefix + name, sent, faults)
        if len(faults) == before:
            values[name] = read
    for field in fields.values():
        if field.required and field.name not in value:
            faults.append(Fault(prefix + field.name, "required", "is missing; it is required"))
    if unknown:
        faults.extend(unknown_names(unknown, fields, prefix))
    return values


def unknown_names(names: list[str], known: Iterable[str], prefix: str) -> list[Fault]:
    """A fault for each unknown name, with the known name that was probably meant."""
    known = list(known)
    faults = [
        Fault(prefix + (short(name) or '""'), "unknown_name", f"is not known; {_suggestion(name, known)}")
        for name in names[:MAX_FAULTS_NAMED]
    ]
    if len(names) > MAX_FAULTS_NAMED:
        rest = len(names) - MAX_FAULTS_NAMED
        faults.append(Fault(prefix.rstrip(".") or "body", "unknown_name", f"has {rest} more unknown names"))
    return faults


def read_items(rule: Rule, param: str, values: list[Any], faults: list[Fault]) -> list[Any]:
    """The items of an array as they are stored; after too many faults the rest is not checked."""
    items = []
    before = len(faults)
    for index, value in enumerate(values):
        if len(faults) - before >= MAX_FAULTS_NAMED:
            message = f"has {len(values) - index} more items, which were not checked after so many faults"
            faults.append(Fault(param, "too_many_faults", message))
            break
        items.append(rule.read(f"{param}[{index}]", value, faults))
    return items


def wrong_type(param: str, value: Any, expected: str) -> Fault:
    """The fault for a value that is not of the expected JSON type."""
    if value is None:
        message = f"is null, which is not the same as leaving it out; send {expected}"
    elif isinstance(value, list | dict):
        message = f"is {_JSON_TYPES[type(value)]}; {expected} is expected"
    else:
        message = f"is {quoted(value)}, {_JSON_TYPES.get(type(value), 'not JSON')}; {expected} is expected"
    return Fault(param, "wrong_type", message)


def quoted(value: Any) -> str:
    """A value as JSON writes it, cut to fit into a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{short(value)}"'
    if isinstance(value, int) and value.bit_length() > 1024:
        return "an integer beyond a double"
    return short(repr(value))


def short(text: str) -> str:
    """A text cut to fit into a message, with unprintable characters escaped."""
    cut = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return "".join(mark if mark.isprintable() else f"\\u{ord(mark):04x}" for mark in cut)


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= MAX_SHOWN else []
    return f"did you mean {near[0]}?" if near else "leave it out"


def _out_of_range(param: str, value: float, minimum: float, maximum: float, unit: str) -> Fault:
    allowed = f"from {minimum} to {maximum}{unit and ' ' + unit}"
    return Fault(param, "out_of_range", f"is {quoted(value)}; it must be {allowed}")


def _white_space_at_ends(param: str, value: str) -> Fault:
    ends = [("starts", value[0]), ("ends", value[-1])]
    where = " and ".join(f"{verb} with U+{ord(mark):04X}" for verb, mark in ends if mark in WHITE_SPACE)
    return Fault(param, "white_space", f"{where}; send it without white space at its ends")
