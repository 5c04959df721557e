"""The lines of a batch, each a text, prompt or recording and the name of its file, and their results.

It reads CSV and JSON Lines and knows neither the service nor the journal. A bad line carries its error and
does not stop the others.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

from tenuto_client import parameters
from tenuto_client.errors import InvalidSetting
from tenuto_client.paths import expanded

KINDS = {"text": "speech", "prompt": "image", "file": "recognition"}
"""The kind of job that each of these fields requests; a line has exactly one of them."""
PARAMETERS = {
    "speech": parameters.SpeechParameters,
    "image": parameters.ImageParameters,
    "recognition": parameters.RecognitionParameters,
}
NOT_SUBMITTED = "not_submitted"
"""The state of a line that has no accepted job."""
MAX_LINES = 100_000
MAX_FILE_BYTES = 256 << 20
MAX_ID_BYTES = 150
"""Short enough to be a file name even with what a download adds to it."""
_NOT_IN_A_NAME = frozenset('/\\<>:"|?*')
"""Characters that some file system refuses."""
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
"""Names that are no files on Windows, whatever follows their first dot."""

Source = str | Path | Iterable[Mapping[str, Any]]
"""A CSV or JSON Lines file, or the lines themselves."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a job to make, and the name of its file."""

    number: int
    """Where it is in its file, from 1."""
    id: str
    kind: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    """The recording to transcribe."""
    error: str = ""
    """Why the line cannot be submitted; empty if it can."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of a line."""

    number: int
    """Where the line is in its file, from 1."""
    id: str
    state: str = NOT_SUBMITTED
    """The state of its job when it was last read; `not_submitted` if no job was accepted for it."""
    file: str | None = None
    """The name of its result in the folder; None until it is complete."""
    sha256: str | None = None
    """Of that file."""
    charged: str | None = None
    """A decimal string in CNY, once the job succeeded."""
    error: str = ""
    """Why it has no result, if the reason is known."""
    job_id: str | None = None

    @property
    def has_succeeded(self) -> bool:
        """Whether its file is complete."""
        return self.file is not None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The results of all lines, in their order; `report.csv` has the same content."""

    path: Path
    results: tuple[LineResult, ...]

    @property
    def has_succeeded(self) -> bool:
        """Whether every line has its file."""
        return all(result.has_succeeded for result in self.results)

    @property
    def charged(self) -> Decimal:
        """The total cost of all lines."""
        return sum((Decimal(each.charged) for each in self.results if each.charged), Decimal())


def read_lines(
    source: Source, *, model: str | None = None, defaults: Mapping[str, Any] | None = None
) -> list[Line]:
    """The lines in order; `defaults` are parameters for lines that do not set them.

    Paths of recordings are relative to the folder of the lines' own file, or to the current one. Raises
    InvalidSetting if the file as a whole cannot be used, OSError.
    """
    if isinstance(source, str | Path):
        path = expanded(source)
        records, folder = _records(path), path.absolute().parent
    else:
        records, folder = enumerate(source, 1), Path.cwd()
    lines: list[Line] = []
    seen: dict[str, int] = {}
    for number, record in records:
        if len(lines) == MAX_LINES:
            raise InvalidSetting(f"a batch has at most {MAX_LINES} lines; write the others to a second file")
        line = _line(number, record, folder, model, defaults or {})
        earlier = seen.setdefault(line.id.casefold(), number) if line.id else number
        if earlier != number and not line.error:
            line = replace(line, error=f"line {number}: the id {line.id} is already used in line {earlier}")
        lines.append(line)
    if not lines:
        raise InvalidSetting("there are no lines in this batch")
    return lines


def document_of(line: Line, model: str) -> dict[str, Any]:
    """The body of the line's job; for a recording, without its input.

    As in the commands, the language of a text is detected here, and that of a recording by the engine.
    """
    values = dict(line.parameters)
    if line.kind == "speech" and "lang" not in values:
        from tenuto_client.languages import spoken

        values["lang"] = spoken(values["text"])
    elif line.kind == "recognition":
        values = {"language": "auto", **values}
    document: dict[str, Any] = {"model": model, "parameters": values}
    return {**document, "metadata": dict(line.metadata)} if line.metadata else document


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """The number and content of each line; a string instead says why it has none."""
    form = path.suffix.lower()
    if form not in (".csv", ".jsonl", ".ndjson"):
        raise InvalidSetting(f"{path} is neither a .csv nor a .jsonl file")
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InvalidSetting(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB; write it as several files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise InvalidSetting(f"{path} is not UTF-8 text in line {number}; save it as UTF-8") from error
    return _of_csv(path, text) if form == ".csv" else _of_json(text)


def _of_csv(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(MAX_FILE_BYTES)
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        columns = [name.strip() for name in reader.fieldnames or ()]
        if "id" not in columns or not KINDS.keys() & set(columns):
            raise InvalidSetting(
                f"{path} needs a first line that names its columns: id, one of text, prompt and file, and "
                "any parameters"
            )
        if len(set(columns)) < len(columns):
            raise InvalidSetting(f"{path} has a column twice: {', '.join(columns)}")
        reader.fieldnames = columns
        for cells in reader:
            extra = cells.get("")
            yield reader.line_num, f"has more cells than columns: {extra}" if extra else _Cells(cells)
    except csv.Error as error:
        raise InvalidSetting(f"{path} is not CSV in line {reader.line_num}: {error}") from error


class _Cells(dict[str, Any]):
    """A line of CSV: its values are text, to be converted to the type of their parameter."""


def _of_json(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            yield number, f"is not JSON: {error}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _line(number: int, record: Any, folder: Path, model: str | None, defaults: Mapping[str, Any]) -> Line:
    """One line, checked. Its error says what would be right."""
    if not isinstance(record, Mapping):
        return Line(number, "", error=record if isinstance(record, str) else "is not a JSON object")
    fields = {name: value for name, value in record.items() if value not in (None, "")}
    name = str(fields.pop("id", "")).strip()
    try:
        _check_id(name)
        inputs = [each for each in KINDS if each in fields]
        if len(inputs) != 1:
            raise ValueError(f"needs exactly one of text, prompt and file, and has {len(inputs)}")
        kind = KINDS[inputs[0]]
        own_model, metadata = fields.pop("model", model), fields.pop("metadata", {})
        recording = _recording(folder, fields.pop("file")) if kind == "recognition" else None
        if isinstance(metadata, str):
            metadata = json.loads(metadata)
        values = {each: _value(kind, each, value, record) for each, value in fields.items()}
    except ValueError as error:
        return Line(number, name, error=str(error))
    return Line(number, name, kind, {**defaults, **values}, own_model, metadata, recording)


def _check_id(name: str) -> None:
    """Raises ValueError unless it can name a file on any system."""
    if not name:
        raise ValueError("has no id; give it one, which also names its file")
    is_bad = not _NOT_IN_A_NAME.isdisjoint(name) or not name.isprintable() or name[0] in ".~"
    is_bad |= name.partition(".")[0].strip().lower() in _DEVICES
    if is_bad or len(name.encode("utf-8", "replace")) > MAX_ID_BYTES:
        raise ValueError(
            f"the id {name[:60]!r} cannot name a file: use up to {MAX_ID_BYTES} bytes of letters, digits, "
            "spaces, dots, hyphens and underscores, without a dot at the beginning"
        )


def _recording(folder: Path, name: Any) -> Path:
    path = folder / expanded(str(name))
    try:
        if not path.is_file():
            raise ValueError(f"{path}: no such file")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return path


def _value(kind: str, name: str, value: Any, record: Mapping[str, Any]) -> Any:
    """The value of a parameter: JSON has its own types, a CSV cell is converted to the parameter's type."""
    if name in ("text", "prompt"):
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text, not {value!r}")
        return value.strip()
    if not isinstance(record, _Cells):
        return value
    hint = get_type_hints(PARAMETERS[kind]).get(name)
    if hint is str or "Literal" in str(hint):
        return value
    try:
        return json.loads(value.lower() if hint is bool else value, parse_constant=_refuse)
    except ValueError:
        if hint is None:
            return value
    kinds = {bool: "true or false", int: "a whole number", float: "a number"}
    raise ValueError(f"{name} must be {kinds.get(hint, 'a JSON array')}, not {value!r}")
