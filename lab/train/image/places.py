"""Where the pipeline keeps what it downloads and makes; nothing of it is in the tree. Knows no step."""

import os
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SHIPPED = ROOT / "engines" / "pictograms" / "src" / "tenuto_pictograms" / "weights"


def work(*names: str) -> Path:
    """A path in the work folder, `$TENUTO_TRAIN` or ~/.cache/tenuto-train; its parent folder exists."""
    path = Path(os.environ.get("TENUTO_TRAIN") or Path.home() / ".cache" / "tenuto-train").joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
