"""Embeddings: the fields of a request, and the rules for their values.

Nothing here knows which models there are, or how they answer.
"""

from typing import Annotated, Any

import msgspec

from tenuto.errors import Fault
from tenuto.kind.envelope import MAX_MODEL_CHARACTERS
from tenuto.rules import Choice, Integer, Text, by_name, declared, read_fields, wrong_type

MAX_INPUTS = 2048
MAX_DIMENSIONS = 65_536
MAX_TOKEN = 2**31
MAX_USER_CHARACTERS = 512
_EXPECTED = "a string, an array of strings, an array of tokens or an array of arrays of tokens"


class _Input:
    """One text or one list of tokens, or an array of either; kept as it was sent."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not list:
            _check_text(param, value, faults)
        elif not value or type(value[0]) is int:
            _check_tokens(param, value, faults)
        elif len(value) > MAX_INPUTS:
            message = f"has {len(value)} inputs; from 1 to {MAX_INPUTS} are allowed"
            faults.append(Fault(param, "wrong_length", message))
        else:
            check = _check_tokens if type(value[0]) is list else _check_text
            for number, one in enumerate(value):
                before = len(faults)
                check(f"{param}[{number}]", one, faults)
                if len(faults) > before:
                    break
        return value


def _check_text(param: str, value: Any, faults: list[Fault]) -> None:
    if type(value) is not str:
        faults.append(wrong_type(param, value, _EXPECTED))
    elif not value:
        faults.append(Fault(param, "empty", "is empty; an embedding is made of at least one character"))


def _check_tokens(param: str, value: Any, faults: list[Fault]) -> None:
    if type(value) is not list:
        faults.append(wrong_type(param, value, _EXPECTED))
    elif not value:
        faults.append(Fault(param, "empty", f"is empty; {_EXPECTED} is expected"))
    elif not all(type(token) is int and 0 <= token < MAX_TOKEN for token in value):
        message = "contains a value that is not a token; whole numbers from 0 are expected"
        faults.append(Fault(param, "wrong_type", message))


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request; each field is declared once. None: the caller left it out."""

    model: Annotated[str, Text(MAX_MODEL_CHARACTERS, "characters"), "The model's full public name."]
    input: Annotated[Any, _Input(), "What is embedded."]
    encoding_format: Annotated[str, Choice(("float", "base64")), "Numbers, or 32-bit floats."] = "float"
    dimensions: Annotated[
        int | None, Integer(1, MAX_DIMENSIONS), "How many numbers, if the model lets one choose."
    ] = None
    user: Annotated[
        str | None, Text(MAX_USER_CHARACTERS, "characters", may_be_empty=True), "Without effect."
    ] = None

    @property
    def inputs(self) -> list[str | list[int]]:
        """The inputs to embed, in order."""
        is_list = isinstance(self.input, list) and not isinstance(self.input[0], int)
        return self.input if is_list else [self.input]


FIELDS = by_name(declared(EmbeddingRequest))


def check(body: dict[str, Any]) -> tuple[EmbeddingRequest | None, list[Fault]]:
    """The request, or None and everything that is wrong with it."""
    faults: list[Fault] = []
    values = read_fields(FIELDS, body, "", faults)
    return (None, faults) if faults else (EmbeddingRequest(**values), faults)
