"""A stand-in for what the adapters take from transformers: models and processors of a folder."""

from __future__ import annotations

from typing import Any

import playbook


class _Model:
    def __init__(self, folder: str) -> None:
        self.playbook = playbook.Playbook(folder)

    def to(self, *place: Any, dtype: Any = None) -> _Model:
        return self

    def eval(self) -> _Model:
        return self


class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, trust_remote_code: bool = False, dtype: Any = None
    ) -> _Model:
        if not trust_remote_code:
            raise ValueError("The repository contains custom code which must be executed to load the model.")
        return _Model(pretrained_model_name_or_path)


class AutoProcessor:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str, *, trust_remote_code: bool = False) -> Any:
        return object()
