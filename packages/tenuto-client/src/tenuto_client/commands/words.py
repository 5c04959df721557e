"""English or Chinese, by the locale. The English text is the name under which `zh` has the other one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any


def t(english: str, **values: Any) -> str:
    """The text in the user's language, its `{names}` filled in."""
    text = _chinese().get(english, english) if is_chinese() else english
    return text.format(**values) if values else text


def retold(message: str) -> str:
    """What an error says, in the user's language; what has no translation stays as it was said."""
    if not is_chinese():
        return message
    found = next(
        ((fit, chinese) for pattern, chinese in _errors() if (fit := pattern.fullmatch(message))), None
    )
    if found is None:
        return message
    named = [retold(part) for part in found[0].groups()]
    return re.sub(r"\{(\d)\}", lambda number: named[int(number[1])], found[1])


@cache
def is_chinese(environment: Mapping[str, str] | None = None) -> bool:
    """Whether messages are Chinese: as LC_ALL, else LC_MESSAGES, else LANG says."""
    names = os.environ if environment is None else environment
    chosen = next((names[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if names.get(name)), "")
    return chosen.lower().startswith("zh")


def add(module: str) -> None:
    """Another module whose WORDS are texts of commands, for a distribution that adds some."""
    if module not in _MODULES:
        _MODULES.append(module)
        _chinese.cache_clear()


_MODULES = ["tenuto_client.commands.zh"]


@cache
def _chinese() -> Mapping[str, str]:
    return {english: text for name in _MODULES for english, text in import_module(name).WORDS.items()}


@cache
def _errors() -> tuple[tuple[re.Pattern[str], str], ...]:
    from tenuto_client.commands.zh_errors import ERRORS

    return tuple(
        (re.compile(re.sub(r"\\{\d\\}", "(.+?)", re.escape(english)), re.DOTALL), chinese)
        for english, chinese in ERRORS
    )
