"""Writes typed calls for the named statements of SQL files: `money/ledger.sql` becomes `money/ledger_sql.py`.

    python scripts/sql_calls.py [--check]

With `--check` it writes nothing; the exit code is 1 if a file is out of date. A file begins with a comment,
which is the module's docstring. Then each statement has a head, its docstring, and its text up to a `;`:

    -- entry(entry_id) -> first LedgerLine
    -- A line of the ledger.
    select id, type, note from entry where id = :entry_id;

Parameters have the type of the column of their name, or one of their own: `since: str`. `*NewJob` stands
for a struct of all parameters that the head does not name. What follows a `*` is given by name. What a call
returns:

    nothing       nobody reads it; errors may come later (`Transaction.do`)
    changed       the number of changed rows
    asked         the same, sent at once and read later (`Transaction.ask`)
    whether       whether there is a row
    first X       the first row or None; X is a scalar (`int`, `str`) or the name of a struct
    only X        the row that is always there, such as a count
    all X         all rows
    asked X       `first X`, read later; a struct

Structs are written from the columns of the statement: each has the type of its column in the schema, and the
comment above that as its docstring. Where the schema has no type, or a parameter has a default, the last line
before the statement says so:

    -- with number: int, note: str | None = None

A line that is too long goes on in the next one, indented. `{name}` stands for a fragment of the file, whose
head is `-- fragment name`, or for the guard of a move of `tenuto.job.states`, as `{START}`.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tenuto.job import states

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "packages" / "tenuto" / "src" / "tenuto"
MIGRATIONS = SOURCE / "db" / "migrations"
PYTHON = {"text": "str", "bigint": "int", "integer": "int"}
SCALARS = ("int", "str")
COMMON = {"now_ms": "int", "limit": "int"}
"""Parameters that are no columns."""

_HEAD = re.compile(r"-- (\w+)\((.*)\) -> (nothing|changed|whether|asked|(first|only|all|asked) (\w+))")
_FRAGMENT = re.compile(r"-- fragment (\w+)")
_WITH = re.compile(r"-- with (.*)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_TABLE = re.compile(
    r"(?<!for )(?<!key )\b(left join|join|from|into|update)\s+(\w+)(?:\s+(?:as\s+)?"
    r"(?!where|set|on|order|left|join|limit|union|for|values|returning)(\w+))?"
)
_INSERT = re.compile(r"insert into \w+\s*\((.*?)\)\s*values\s*\((.*)\)", re.DOTALL)


class Column(NamedTuple):
    """A column of the schema: its type in Python, and the comment above it."""

    type: str
    is_nullable: bool
    meaning: str

    def as_type(self, *, may_be_null: bool) -> str:
        """The type of a value of it."""
        return f"{self.type} | None" if may_be_null else self.type


Schema = Mapping[str, Mapping[str, Column]]
"""Columns by table and name."""


class Call(NamedTuple):
    """A statement of a file, with its head."""

    place: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    """Names and types, in the order of the head; `*` and structs have no type."""
    result: str
    row: str
    meaning: str
    declared: Mapping[str, str]
    sql: str

    @property
    def struct(self) -> str | None:
        """The struct that it takes."""
        return next((name[1:] for name, _ in self.parameters if name[:1] == "*" and name[1:]), None)


def main() -> int:
    """The exit code."""
    schema, is_checked = read_schema(), "--check" in sys.argv
    stale = 0
    for file in sorted(path for path in SOURCE.rglob("*.sql") if path.parent != MIGRATIONS):
        target = file.with_name(f"{file.stem}_sql.py")
        text = formatted(module(file, schema), target)
        if target.exists() and target.read_text("utf-8") == text:
            continue
        stale += 1
        print(f"{target.relative_to(ROOT)}: {'is out of date' if is_checked else 'written'}")
        if not is_checked:
            target.write_text(text, "utf-8")
    return 1 if stale and is_checked else 0


# --- the schema -----------------------------------------------------------------------------------------


def read_schema() -> Schema:
    """The columns of all tables, from the migrations."""
    tables: dict[str, dict[str, Column]] = {}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        text = file.read_text("utf-8")
        for table, body in re.findall(r"^create table (\w+) \((.*?)^\)", text, re.MULTILINE | re.DOTALL):
            tables[table] = dict(_columns(body))
        for comment, table, rest in re.findall(
            r"((?:^--[^\n]*\n)*)^alter table (\w+) add column ([^;]*);", text, re.MULTILINE
        ):
            tables[table] |= dict(_columns(f"{comment}{rest}"))
    return tables


def _columns(body: str) -> Iterator[tuple[str, Column]]:
    comment: list[str] = []
    for line in map(str.strip, body.splitlines()):
        if line.startswith("--"):
            comment.append(line[2:].strip())
            continue
        if found := re.match(r"(\w+) (text|bigint|integer)\b(.*)", line):
            name, kind, rest = found.groups()
            is_nullable = "not null" not in rest and "primary key" not in rest
            yield name, Column(PYTHON[kind], is_nullable, " ".join(comment))
        comment = []


# --- a file ---------------------------------------------------------------------------------------------


def read_file(file: Path, schema: Schema) -> tuple[str, list[Call]]:
    """The docstring of the module and its statements."""
    header, *blocks = re.split(r"\n\n+(?=-- )", file.read_text("utf-8").strip())
    fragments = {name: move.guard for name, move in vars(states).items() if isinstance(move, states.Move)}
    calls = []
    for block in blocks:
        lines = [line for line in block.splitlines() if line.startswith("--")]
        sql = "\n".join(block.splitlines()[len(lines) :]).rstrip().removesuffix(";")
        sql = re.sub(r"\{(\w+)\}", lambda found: fragments[found[1]], sql)
        comment = re.sub(r"\n--     +", " ", "\n".join(lines)).splitlines()
        if found := _FRAGMENT.fullmatch(comment[0]):
            fragments[found[1]] = sql
        elif not comment[0].startswith("-- ---"):
            calls.append(_call(file.name, comment, sql, schema))
    return _plain(header.splitlines()), calls


def _call(file: str, comment: list[str], sql: str, schema: Schema) -> Call:
    head = _HEAD.fullmatch(comment[0])
    if head is None:
        raise SystemExit(f"{file}: {comment[0]}: is not the head of a statement")
    declared: dict[str, str] = {}
    if found := _WITH.fullmatch(comment[-1]):
        declared = {name: kind for name, _, kind in (one.partition(": ") for one in found[1].split(", "))}
        comment = comment[:-1]
    call = Call(
        place=f"{file}: {head[1]}",
        name=head[1],
        parameters=(),
        result=head[4] or head[3],
        row=head[5] or "",
        meaning=_plain(comment[1:]),
        declared=declared,
        sql=sql,
    )
    parameters = []
    for one in filter(None, map(str.strip, head[2].split(","))):
        name, _, own = one.partition(": ")
        parameters.append((name, "" if name.startswith("*") else own or type_of(name, call, schema)))
    call = call._replace(parameters=tuple(parameters))
    named, used = {name for name, _ in parameters if not name.startswith("*")}, set(_parameters(sql))
    if not named <= used or (call.struct is None and named != used):
        raise SystemExit(f"{call.place}: the head has {sorted(named)}, the statement {sorted(used)}")
    return call


def _parameters(sql: str) -> list[str]:
    """Each once, in the order of the statement."""
    return list(dict.fromkeys(_PARAMETER.findall(sql)))


def _plain(comment: list[str]) -> str:
    return "\n".join(line.removeprefix("--").strip() for line in comment).strip()


# --- types ----------------------------------------------------------------------------------------------


def type_of(name: str, call: Call, schema: Schema) -> str:
    """The type of a parameter: of the column that it is written to, else of a column of its name."""
    if known := call.declared.get(name) or COMMON.get(name):
        return known
    column, is_written = name, f":{name}" in call.sql.partition("where")[0].partition(" set ")[2]
    if inserted := _INSERT.search(call.sql):
        columns, values = _split(inserted[1]), _split(inserted[2])
        if f":{name}" in values:
            column, is_written = columns[values.index(f":{name}")], True
    for table in (*(table for table, _ in _tables(call.sql).values()), *schema):
        if found := schema.get(table, {}).get(column):
            return found.as_type(may_be_null=found.is_nullable and is_written)
    if name.endswith("_id"):
        return "str"
    raise SystemExit(f"{call.place}: the type of :{name} is not known; declare it")


def fields(call: Call, schema: Schema) -> list[tuple[str, str, str]]:
    """Name, type and meaning of the columns that a statement returns."""
    tables = _tables(call.sql)
    found = []
    for name, expression in returned(call):
        if name in call.declared:
            found.append((name, call.declared[name], ""))
            continue
        owner, _, column = expression.rpartition(".")
        for table, is_outer in [tables[owner]] if owner in tables else tables.values():
            if one := schema.get(table, {}).get(column):
                kind = one.as_type(may_be_null=one.is_nullable or is_outer)
                found.append((name, kind, one.meaning))
                break
        else:
            raise SystemExit(f"{call.place}: the type of {name} is not known; declare it")
    return found


def returned(call: Call) -> list[tuple[str, str]]:
    """Names and expressions of the columns that a statement returns."""
    if found := re.search(r"\breturning\s+(.*)\Z", call.sql, re.DOTALL):
        listed = found[1]
    else:
        listed = call.sql.partition("select ")[2]
        ends = [found.start() for found in re.finditer(r"\sfrom\s", listed)]
        listed = next((text for end in ends if (text := listed[:end]).count("(") == text.count(")")), listed)
    columns = []
    for one in _split(listed):
        expression, _, name = one.rpartition(" as ")
        columns.append((name if expression else one.rpartition(".")[2], expression.strip() or one))
    return columns


def _tables(sql: str) -> dict[str, tuple[str, bool]]:
    """By the name under which a table's columns are known: the table, and whether its row may be missing."""
    return {alias or table: (table, join == "left join") for join, table, alias in _TABLE.findall(sql)}


def _split(text: str) -> list[str]:
    """At the commas that are in no brackets; up to a bracket that nothing opened."""
    parts, depth = [""], 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            break
        if mark == "," and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return [part.strip() for part in parts]


# --- what is written ------------------------------------------------------------------------------------


def module(file: Path, schema: Schema) -> str:
    """The text of the module, not formatted yet."""
    doc, calls = read_file(file, schema)
    structs: dict[str, str] = {}
    for call in calls:
        if call.struct is not None:
            structs[call.struct] = _given(call, call.struct, schema)
        if call.row and call.row not in SCALARS:
            text = _struct(call.row, f"What `{call.name}` returns.", fields(call, schema))
            same = structs.setdefault(call.row, text)
            if same.partition("\n\n")[2] != text.partition("\n\n")[2]:
                raise SystemExit(f"{call.place}: {call.row} has other columns than before")
    body = "\n\n".join((*structs.values(), *map(_function, calls)))
    deferred = "Deferred, " if "-> Deferred:" in body else ""
    imports = [
        "import msgspec\n" if structs else "",
        "from tenuto.db import records" if "records." in body else "",
        f"from tenuto.db.database import {deferred}Transaction",
        "from tenuto.db.records import DeferredRecord" if "DeferredRecord[" in body else "",
    ]
    made = f"Written by `scripts/sql_calls.py` from `{file.name}`: change that."
    head = f'"""{doc}\n\n{made}\n"""\n\n' + "\n".join(filter(None, imports))
    return f"{head}\n\n{body}\n"


def _struct(name: str, doc: str, columns: list[tuple[str, str, str]]) -> str:
    lines = [f'class {name}(msgspec.Struct, frozen=True):\n    """{doc}"""\n']
    for column, kind, meaning in columns:
        lines.append(f"    {column}: {kind}")
        if meaning:
            lines.append(f'    """{_wrapped(meaning)}"""')
    return "\n".join(lines)


def _given(call: Call, name: str, schema: Schema) -> str:
    """The struct of the parameters that a head does not name."""
    named = {one for one, _ in call.parameters}
    names = [one for one in _parameters(call.sql) if one not in named]
    return _struct(
        name, f"What `{call.name}` writes.", [(one, type_of(one, call, schema), "") for one in names]
    )


def _function(call: Call) -> str:
    sql = textwrap.indent(call.sql, "        ")
    given, passed = ["tx: Transaction"], [f'"""\n{sql}\n        """']
    for name, kind in call.parameters:
        given.append(f"{name}: {kind}" if kind else name if name == "*" else f"new: {name[1:]}")
        if kind:
            passed.append(f"{name}={name}")
    if call.struct is not None:
        passed.append("**msgspec.structs.asdict(new)")
    returns, body = _reading(call, ", ".join(passed))
    doc = f'    """{_wrapped(call.meaning)}"""\n' if call.meaning else ""
    return f"def {call.name}({', '.join(given)}) -> {returns}:\n{doc}    {body}\n"


def _reading(call: Call, arguments: str) -> tuple[str, str]:
    """What the call returns, and how."""
    if not call.row:
        return {
            "nothing": ("None", f"tx.do({arguments})"),
            "changed": ("int", f"return tx.run({arguments})"),
            "whether": ("bool", f"return tx.one({arguments}) is not None"),
            "asked": ("Deferred", f"return tx.ask({arguments})"),
        }[call.result]
    if call.row not in SCALARS:
        arguments = f"tx, {call.row}, {arguments}"
        return {
            "first": (f"{call.row} | None", f"return records.one({arguments})"),
            "only": (call.row, f"row = records.one({arguments})\n    assert row is not None\n    return row"),
            "all": (f"list[{call.row}]", f"return records.all_records({arguments})"),
            "asked": (f"DeferredRecord[{call.row}]", f"return records.ask({arguments})"),
        }[call.result]
    [(column, _)] = returned(call)
    value, is_null = f'{call.row}(row["{column}"])', f'row is None or row["{column}"] is None'
    return {
        "first": (
            f"{call.row} | None",
            f"row = tx.one({arguments})\n    return None if {is_null} else {value}",
        ),
        "only": (call.row, f"row = tx.one({arguments})\n    assert row is not None\n    return {value}"),
        "all": (f"list[{call.row}]", f"return [{value} for row in tx.all({arguments})]"),
    }[call.result]


def _wrapped(text: str) -> str:
    """A docstring, as its author has wrapped it, or wrapped here if it is one long line."""
    lines = text.splitlines()
    if len(lines) == 1:
        lines = textwrap.wrap(text, 100)
    return lines[0] if len(lines) == 1 else "\n    ".join(lines) + "\n    "


def formatted(text: str, target: Path) -> str:
    """As `ruff format` writes it."""
    command: list[str | Path] = [
        Path(sys.executable).with_name("ruff"),
        "format",
        "--stdin-filename",
        target,
        "-",
    ]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
