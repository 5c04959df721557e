"""Settings of the tools of assistants."""

from typing import Annotated, Any, Literal

from msgspec import Struct

from tenuto.config import setting
from tenuto.errors import Fault
from tenuto.rules import Choice


class _Switch(Struct, frozen=True):
    """`on`, if the tools are installed, or `off`."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        value = setting.read(Choice(("on", "off")), param, value, faults)
        if value == "on" and not setting.are_installed("tenuto_mcp.hosted", "mcp"):
            message = "the tools of assistants are not installed; pip install 'tenuto[mcp]' adds them"
            faults.append(setting.fault(param, message))
        return value


class McpSettings(Struct, frozen=True):
    """Settings of the tools of assistants."""

    mcp: Annotated[
        Literal["on", "off"],
        _Switch(),
        "`on`: assistants may call tools at `/mcp` by the Model Context Protocol with a key; needs the extra"
        " `mcp`: see [assistants](../mcp.md#over-http); `off`: the path is not there",
    ] = "off"
