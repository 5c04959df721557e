"""An image attempt: one run of the engine; its PNG is checked, and is of the size that was asked for."""

from typing import Any

from tenuto.catalog.kinds import SuppliedResult
from tenuto.errors import OperatorError
from tenuto.hosts.host import HostResult
from tenuto.media.png import PngInvalid, read_png
from tenuto.worker.calls import EngineCalls, ResultInvalid

MEDIA_TYPE = "image/png"


def run(calls: EngineCalls) -> HostResult:
    """The finished PNG; its metadata tell the size that was measured and the seed that was used.

    Raises ResultInvalid, and what hosts raise.
    """
    parameters = calls.claim.parameters
    result = calls.run(parameters, {})
    if result.media_type != MEDIA_TYPE:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of {MEDIA_TYPE}")
    try:
        png = read_png(result.content)
    except PngInvalid as error:
        raise ResultInvalid(f"the engine's PNG is not one: {error}") from error
    wanted = (parameters["width"], parameters["height"])
    if (png.width, png.height) != wanted:
        raise ResultInvalid(f"the engine's PNG is {png.width} × {png.height}, not {wanted[0]} × {wanted[1]}")
    measured = {"width": png.width, "height": png.height, "seed": parameters["seed"]}
    return HostResult(result.media_type, result.content, result.metadata | measured, None)


def supplied(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """An operator's file as a result. Raises OperatorError."""
    try:
        png = read_png(content)
    except PngInvalid as error:
        raise OperatorError(f"the file is no result of an image job, which is a PNG: {error}") from error
    return SuppliedResult(content, MEDIA_TYPE, {"width": png.width, "height": png.height}, None)
