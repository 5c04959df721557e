"""Settings of the tools of assistants."""

from typing import Annotated, Any, Literal

from msgspec import Struct

from tenuto.config.rules import Choice, are_installed


class _Switch(Struct, frozen=True):
    """`on`, if the tools are installed, or `off`."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        value = Choice(("on", "off")).read(name, value, faults)
        if value == "on" and not are_installed("tenuto_mcp.hosted", "mcp"):
            faults.append(
                f"{name}: the tools of assistants are not installed; pip install 'tenuto[mcp]' adds them"
            )
        return value


class McpSettings(Struct, frozen=True):
    """Settings of the tools of assistants."""

    mcp: Annotated[
        Literal["on", "off"],
        _Switch(),
        "`on`: assistants may call tools at `/mcp` by the Model Context Protocol with a key; needs the extra"
        " `mcp`: see [assistants](../mcp.md#over-http); `off`: the path is not there",
    ] = "off"
