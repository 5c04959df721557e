"""The Chinese translations of these commands' help and reports, read from `zh.json`."""

import json
from importlib.resources import files

_TABLE = json.loads((files("tenuto.features.help") / "zh.json").read_text("utf-8"))
WORDS: dict[str, str] = _TABLE["words"]
"""By the English text."""
ERRORS: tuple[tuple[str, str], ...] = tuple(_TABLE["reports"].items())
"""By the English text, with numbers for what is filled in; includes the audit's findings."""
