"""The language that a transcription names: whether it is one, which model uses it, and whether one has."""

from collections.abc import Mapping
from typing import Any

from tenuto.errors import Fault
from tenuto.kind.model import Model
from tenuto.rules import quoted

FIELD = "language"
_LISTED = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to
tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_CODES = frozenset(_LISTED.split())
"""ISO 639-1."""
_OTHERS = {"jp": "ja", "iw": "he", "in": "id", "nb": "no", "jv": "jw", "jw": "jw"}
"""Codes in use for a language that has another one in transcripts."""


class Language:
    """A code, a tag such as `en-US`, or a name, which engines know more of than we do."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        code = code_of(value)
        if len(code) == 2 and code not in _CODES and code not in _OTHERS:
            message = (
                f"is {quoted(value)}, which is no code of a language (ISO 639-1); send a code such as en, "
                "or leave it out to have the language detected"
            )
            faults.append(Fault(param, "not_allowed", message))
        return value


def code_of(named: str) -> str:
    """The first part of a tag in small letters."""
    return named.strip().replace("_", "-").partition("-")[0].lower()


def is_used(model: Model | None) -> bool:
    """Whether a model uses the language that it is given; one that is gone is not known to ignore it."""
    return model is None or FIELD in model.entry.honoured


def is_ignored(values: Mapping[str, Any], model: Model | None, heard: str) -> bool:
    """Whether the language of the form had no influence: the transcript has another, or a detected one."""
    code = code_of(values.get(FIELD, ""))
    if not code or code == "auto":
        return False
    expected = _OTHERS.get(code, code)
    return not is_used(model) or (len(code) == 2 and heard not in ("", code, expected))
