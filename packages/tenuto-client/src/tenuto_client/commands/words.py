"""English or Chinese, depending on the locale. `zh` maps each English text to its translation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any


def t(english: str, **values: Any) -> str:
    """The text in the user's language, with its `{names}` filled in."""
    text = _chinese().get(english, english) if is_chinese() else english
    return text.format(**values) if values else text


def translated(message: str) -> str:
    """An error message in the user's language; unchanged if there is no translation."""
    if not is_chinese():
        return message
    match = next(
        ((fit, chinese) for pattern, chinese in _errors() if (fit := pattern.fullmatch(message))), None
    )
    if match is None:
        return message
    values = [translated(part) for part in match[0].groups()]
    return re.sub(r"\{(\d)\}", lambda number: values[int(number[1])], match[1])


@cache
def is_chinese(environment: Mapping[str, str] | None = None) -> bool:
    """Whether messages are in Chinese, according to LC_ALL, else LC_MESSAGES, else LANG."""
    names = os.environ if environment is None else environment
    chosen = next((names[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if names.get(name)), "")
    return chosen.lower().startswith("zh")


def add(module: str) -> None:
    """Register another module with WORDS and ERRORS, for a distribution that adds commands."""
    if module not in _MODULES:
        _MODULES.append(module)
        _chinese.cache_clear()
        _errors.cache_clear()


_MODULES = ["tenuto_client.commands.zh"]


@cache
def _chinese() -> Mapping[str, str]:
    return {english: text for name in _MODULES for english, text in import_module(name).WORDS.items()}


@cache
def _errors() -> tuple[tuple[re.Pattern[str], str], ...]:
    """All patterns, whole sentences first, so that no pattern that happens to match hides them."""
    errors = [error for name in _MODULES for error in import_module(name).ERRORS]
    return tuple(
        (re.compile(re.sub(r"\\{\d\\}", "(.+?)", re.escape(english)), re.DOTALL), chinese)
        for english, chinese in sorted(errors, key=lambda error: "{0}" in error[0])
    )
