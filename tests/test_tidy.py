"""Rules of the house that no linter knows, checked on the text and the syntax tree of every file.

Imports between packages are import-linter's (pyproject.toml); what is here it cannot see.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata
from pathlib import Path

import yaml

from tenuto import errors

ROOT = Path(__file__).parents[1]
ROOTS = [*ROOT.glob("packages/*/src"), *ROOT.glob("engines/*/src"), *ROOT.glob("contrib/*/src")]
SOURCES = {p.relative_to(src).as_posix(): p for src in ROOTS for p in src.rglob("*.py")}
NAMES = sorted(SOURCES)
READS_THE_CLOCK = ("tenuto/process/", "tenuto_client/")
PRINTS = ("tenuto/command/", "tenuto/features/help/")
MOUNTS_THE_CLIENT = (
    "tenuto_client/",
    "tenuto_mcp/",
    "tenuto/command/",
    "tenuto/feature.py",
    "tenuto/features/help/",
)
OF_FEATURES = ("commands.py", "/feature.py")
"""What features add to the command line: these print, and mount the client."""
DETECTS_LANGUAGES = "tenuto/features/openai/speech.py"
"""It speaks a text without a language in the one that `tenuto say` takes, by `tenuto_client.languages`."""
READS_RECORDINGS = (
    "tenuto/features/recognition/to_flac.py",
    "tenuto/features/renditions/ffmpeg.py",
    "tenuto/features/recognition/flac_child.py",
)
"""It reads a file as the commands do on a caller's machine, by `tenuto_client.sounds`."""
WALL_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
ASKS = {"tx.one", "tx.all", "tx.ask"}
COMMITS = {"commit", "rollback", "read", "write", "look_up", "read_async", "write_async"}
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
READS_A_STORE_OF_THE_CORE = frozenset(
    f"tenuto/features/{name}.py"
    for name in (
        "recognition/live_text",
        "studio/people_operations",
    )
)
"""They came out of the core, and have to read it by name instead: the list only becomes shorter."""
STORE = re.compile(r"tenuto\.(features\.)?\w+\.((\w+_)?store|\w+_sql)\b")
RECORD = re.compile(r"\.[A-Z]\w*$")
# `db` makes rows; each check of the audit names the columns that its findings show.
HANDS_ROWS_ON = ("tenuto/db/", "tenuto/features/audit/")
# One letter of each stands in brackets, or this file would break its own rule.
NEVER = re.compile(r"/w[o]rk/|/r[o]ot/|/opt/[pw][yh]|p[y]pi\.org|python[h]osted|npm[j]s\.org|T[O]DO|F[I]XME")
CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)


def test_a_module_opens_by_saying_what_lives_in_it() -> None:
    """Every module has a docstring."""
    assert not [name for name in NAMES if not ast.get_docstring(tree(name))]


def test_a_store_stays_inside_its_noun_and_never_commits() -> None:
    """A noun's store is imported by that noun alone, but for its records; it ends no transaction."""
    used = [(n, m) for n in NAMES for m in imports(n) if STORE.match(m) and not RECORD.search(m)]
    stores = [n for n in NAMES if STORE.match(n.replace("/", "."))]

    outside = {n: m for n, m in used if not in_noun(n, m)}

    assert set(outside) <= READS_A_STORE_OF_THE_CORE
    assert not [f"{n}: {x}" for n in stores for x in dotted(n) if x.split(".")[1] in COMMITS]


def test_rows_leave_a_store_as_records() -> None:
    """Stores alone ask the database for rows; what they give away has fields, not names of columns."""
    others = [n for n in NAMES if n.startswith("tenuto/") and not n.startswith(HANDS_ROWS_ON)]
    stores = [n for n in others if STORE.match(n.replace("/", "."))]
    given = [(n, f) for n in stores for f in functions(n) if not f.name.startswith("_")]
    askers = [n for n in others if n not in stores]

    assert len(stores) > 5
    assert not [f"{n}: {f.name} gives rows away" for n, f in given if knows_rows(f)]
    assert not [f"{n} knows rows" for n in askers if "tenuto.db.database.Row" in imports(n)]
    assert not [f"{n}: {x}" for n in askers for x in dotted(n) if x in ASKS]


def test_every_test_file_has_a_name_of_its_own() -> None:
    """pytest imports a file outside a package by its bare name: of two it would collect only the first."""
    files = (ROOT / "tests").rglob("test_*.py")
    names = [path.name for path in files if not (path.parent / "__init__.py").exists()]

    assert [] == sorted({name for name in names if names.count(name) > 1})


def test_no_test_limits_how_long_anything_takes() -> None:
    """`make limits` does that, in files named measured_*.py or by `servers/speed.py`; see docs/testing.md."""
    files = (ROOT / "tests").rglob("test_*.py")
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in files}

    assert not [name for name, tree in trees.items() for node in ast.walk(tree) if is_a_limit(node)]


def is_a_limit(node: ast.AST) -> bool:
    """A clock of the processor, a meter of memory, or seconds that have passed compared to a limit."""
    if isinstance(node, ast.Attribute | ast.alias):
        name = node.attr if isinstance(node, ast.Attribute) else node.name
        return name in {"perf_counter", "process_time", "thread_time", "getrusage", "tracemalloc"}
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Lt | ast.LtE):
        return False
    least = node.left if len(node.ops) == 1 else node.comparators[0]
    return (
        isinstance(least, ast.BinOp) and isinstance(least.op, ast.Sub) and "monotonic()" in ast.unparse(least)
    )


def test_one_package_knows_the_http_server_and_one_knows_drivers() -> None:
    """A rule can be read without HTTP or a driver in mind."""
    servers = ("tenuto/api/server.py", "tenuto/features/http_guard/")
    assert not importers({"uvicorn", "httptools", "uvloop"}, but=servers)
    assert not importers({"sqlite3", "psycopg", "psycopg_pool"}, but=("tenuto/db/",))


def test_one_module_knows_structlog() -> None:
    """`tenuto.logs` imports it in the one way that does not load rich."""
    assert {"tenuto/logs.py"} == set(importers({"structlog"}, but=()))


def test_hosts_and_clients_stand_alone() -> None:
    """A host needs nothing installed; a client knows the contract only; the command line alone mounts it."""
    far_end = [(n, m) for n in NAMES if n.startswith("tenuto_engine/") for m in imports(n)]
    client = [(n, m) for n in NAMES if n.startswith("tenuto_client/") for m in imports(n)]
    allowed = {*sys.stdlib_module_names, "tenuto_engine"}

    assert not [f"{n} imports {m}" for n, m in far_end if m.split(".")[0] not in allowed]
    assert not [f"{n} imports {m}" for n, m in client if m.split(".")[0] in ("tenuto", "tenuto_engine")]
    assert not importers({"tenuto_client"}, but=(*MOUNTS_THE_CLIENT, DETECTS_LANGUAGES, *READS_RECORDINGS))


def test_wall_time_is_read_in_one_place_and_nothing_prints() -> None:
    """Only bootstrap reads the wall clock, all others are given one (P20); only the command line prints."""
    timeless = [n for n in NAMES if not n.startswith(READS_THE_CLOCK)]
    silent = [
        (n, x)
        for n in NAMES
        if not (n.startswith(PRINTS) or n.endswith(OF_FEATURES))
        for x in ast.walk(tree(n))
    ]

    assert not [f"{n}: {x}" for n in timeless for x in [*dotted(n), *imports(n)] if x in WALL_CLOCK]
    assert not [f"{n}:{x.lineno}" for n, x in silent if isinstance(x, ast.Name) and x.id == "print"]


def test_no_file_names_a_machine_a_registry_or_unfinished_work() -> None:
    """What is committed holds on every machine and has no open merge; no requirement names an address."""
    names = committed()
    locks = [name for name in names if name.startswith("requirements/")]

    assert not [f"{n}: {found[0]}" for n in names if (found := NEVER.search(read(n)))]
    assert not [name for name in names if CONFLICT.search(read(name))]
    assert not [name for name in locks if re.search(r"://|\s@\s|index-url|find-links", read(name))]


def test_every_error_says_what_it_means_and_is_documented() -> None:
    """Each error has a docstring and a line in docs/errors.md; those of HTTP are those of openapi.yaml."""
    ours = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.TenutoError)]
    schemas = yaml.safe_load(read("openapi.yaml"))["components"]["schemas"]
    http, inside = codes_under("Over HTTP"), codes_under("At the command line and inside")
    studio = codes_under("In the studio")

    assert not [error.__name__ for error in ours if not error.__dict__.get("__doc__")]
    assert {*http, *studio, *inside} == {error.code for error in ours}
    assert set(http) == set(schemas["ErrorCode"]["enum"])
    assert codes_under("Why a job failed") == schemas["Failure"]["properties"]["code"]["enum"]


def test_links_between_documents_lead_somewhere() -> None:
    """Every link to a file or a folder leads to one that is there, and one to a heading to a heading."""
    documents = [name for name in committed() if name.endswith(".md")]
    links = [(name, *link.groups()) for name in documents for link in LINK.finditer(read(name))]
    broken = [f"{name}: {path}{part}" for name, path, part in links if not leads_somewhere(name, path, part)]

    assert len(links) > 100
    assert not broken


def test_every_program_that_a_document_names_is_there() -> None:
    """`python -m tests.…` and `python -m lab.…`."""
    named = {
        found
        for name in committed()
        if name.endswith((".md", ".py", "Makefile"))
        for found in re.findall(r"python -m ((?:tests|lab)(?:\.\w+)*)(?![.\w])", read(name))
    }
    places = {name: ROOT / name.replace(".", "/") for name in named}
    found = [n for n, at in places.items() if at.with_suffix(".py").exists() or (at / "__main__.py").exists()]

    assert len(named) > 10
    assert sorted(named) == sorted(found)


def test_no_package_that_serving_needs_is_gpl() -> None:
    """Licences of the serving lock, as the packages state them: no GPL, no AGPL; LGPL may be linked."""
    packages = re.findall(r"^([\w.-]+)==", read("requirements/serve.txt"), re.MULTILINE)

    assert not [p for p in packages if re.search(r"(?<!L)GPL|GNU (Affero )?General", licence(p))]


def committed() -> list[str]:
    """The files that git tracks and that are there."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def leads_somewhere(name: str, path: str, part: str) -> bool:
    """Whether a link in a document leads to a file or folder, and its part behind `#` to a heading."""
    target = (ROOT / name).parent / path if path else ROOT / name
    if not part or not target.is_file():
        return target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
    return part[1:] in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def read(name: str) -> str:
    """The text of a file, without the bytes that are no text."""
    return (ROOT / name).read_text(encoding="utf-8", errors="ignore")


def imports(name: str) -> Iterator[str]:
    """Everything that a module imports, `from a import b` as `a.b`; relative ones made absolute."""
    package = name.split("/")[:-1]
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


@cache
def tree(name: str) -> ast.Module:
    """A module's syntax tree; read when a test asks, as most processes only collect this file."""
    return ast.parse(SOURCES[name].read_text("utf-8"))


def in_noun(name: str, store: str) -> bool:
    """Whether a module is in the folder of a store."""
    return name.replace("/", ".").startswith(STORE.match(store)[0].rpartition(".")[0] + ".")  # type: ignore[index]


def functions(name: str) -> Iterator[ast.FunctionDef]:
    """The functions of a module."""
    return (node for node in tree(name).body if isinstance(node, ast.FunctionDef))


def knows_rows(function: ast.FunctionDef) -> bool:
    """Whether rows go into the function or come out of it: mypy sees to it that annotations are true."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    types = [ast.unparse(each) for each in (function.returns, *(a.annotation for a in arguments)) if each]
    return any(re.search(r"\b(Row|Any|object)\b", type_) for type_ in types)


def dotted(name: str) -> Iterator[str]:
    """The last two words of every dotted name in a module: `datetime.now` of `datetime.datetime.now`."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute):
            yield f"{ast.unparse(node.value).rpartition('.')[2]}.{node.attr}"


def importers(packages: set[str], but: tuple[str, ...]) -> list[str]:
    """Who imports one of the packages, but for those allowed to."""
    others = [n for n in NAMES if not n.startswith(but) and not n.endswith(OF_FEATURES)]
    return [n for n in others for m in imports(n) if m.split(".")[0] in packages]


def codes_under(heading: str) -> list[str]:
    """The codes in the table under a heading of docs/errors.md."""
    section = read("docs/errors.md").split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def licence(package: str) -> str:
    """What an installed package says of its licence; of a whole licence text, the first line."""
    about = metadata(package)
    fields = [
        value for name in ("License-Expression", "License", "Classifier") for value in about.get_all(name, [])
    ]
    return " | ".join(field.strip().partition("\n")[0] for field in fields)
