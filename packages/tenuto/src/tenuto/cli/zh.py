"""The Chinese of these commands, read from `zh.json`: of each text in their help, and of what they report."""

import json
from importlib.resources import files

_TABLE = json.loads((files("tenuto.cli") / "zh.json").read_text("utf-8"))
WORDS: dict[str, str] = _TABLE["words"]
"""By the English text."""
ERRORS: tuple[tuple[str, str], ...] = tuple(_TABLE["reports"].items())
"""By the English text, with numbers for what is filled in; the findings of the audit, too."""
