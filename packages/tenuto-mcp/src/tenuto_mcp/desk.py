"""What tools have in common wherever they run: the SDK on the event loop, and what they ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from mcp_types import CallToolResult

from tenuto_client import following, languages, reads
from tenuto_client.errors import InvalidSetting
from tenuto_client.records import Operation, Voice
from tenuto_client.session import AsyncSession
from tenuto_client.steps import Flow
from tenuto_mcp import arguments, results
from tenuto_mcp.works import Work

T = TypeVar("T")


class Desk(Protocol):
    """Where the tools run: beside the user's folder, or in the service."""

    tools: Mapping[str, type[arguments.Arguments]]
    """What each tool takes."""
    about: str
    """What an assistant reads about all tools."""

    async def call(self, tool: str, taken: arguments.Arguments) -> CallToolResult | Work:
        """Carry out a tool. Raises TenutoError, OSError."""

    async def task(self, job_id: str) -> Work:
        """A job by its id, whoever began it. Raises TenutoError."""


class Service:
    """The service, by its SDK."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session

    async def run(self, flow: Flow[T]) -> T:
        """The outcome of a flow of the SDK."""
        return await self.session.run(flow)

    async def look_up(self, taken: arguments.Arguments) -> CallToolResult:
        """The tools that only read."""
        link = self.session.link
        if isinstance(taken, arguments.Voices):
            return self._voices(taken, await self.run(reads.voices(link)))
        if isinstance(taken, arguments.Models):
            rows = await self.run(reads.models(link))
            return results.models([one for one in rows if taken.kind in (None, one.kind)])
        assert isinstance(taken, arguments.Balance)
        money = await self.run(reads.balance(link))
        facts = {
            "available": money.available,
            "held": money.held,
            "total": money.total,
            "currency": money.currency,
        }
        text = f"{money.available} {money.currency} available; unfinished jobs hold {money.held}."
        return results.answer(text, facts)

    async def show(self, job_id: str, *, cancel: bool = False) -> Operation:
        """A job as it is now. Raises NotFound."""
        link = self.session.link
        flow = following.cancel(link, job_id) if cancel else following.show(link, job_id)
        return (await self.run(flow)).operation

    async def parameters(self, taken: arguments.Making) -> tuple[str, dict[str, Any]]:
        """The kind of job that makes this, and its parameters. Raises InvalidSetting."""
        if isinstance(taken, arguments.Say):
            spoken = {"text": taken.text, "lang": taken.lang or languages.spoken(taken.text)}
            if taken.voice is not None:
                spoken["voice_id"] = await self._voice(taken.voice)
            factor = {} if taken.speed is None else {"duration_factor": round(1 / taken.speed, 4)}
            return "speech", {**spoken, **factor}
        if isinstance(taken, arguments.Draw):
            drawn = {"width": taken.width, "height": taken.height, "seed": taken.seed}
            drawn |= {"num_inference_steps": taken.steps}
            wanted = {**drawn, "guidance_scale": taken.guidance}
            named = {name: value for name, value in wanted.items() if value is not None}
            return "image", {"prompt": taken.prompt, **named}
        assert isinstance(taken, arguments.Transcribe)
        return "recognition", {"language": taken.lang}

    async def model(self, taken: arguments.Making, kind: str) -> str:
        """The model that is named, or the first that takes work. Raises NoModel."""
        if taken.model is not None:
            return taken.model
        return await self.run(reads.model_for(self.session.link, kind))

    async def _voice(self, voice: str) -> str:
        """The id of a voice that is given by its id or its name."""
        if voice.startswith("voice_"):
            return voice
        known = await self.run(reads.voices(self.session.link))
        ids = [one.voice_id for one in known if voice in (one.voice_id, one.name)]
        ids = ids or [one.voice_id for one in known if one.name.casefold() == voice.casefold()]
        if len(ids) != 1:
            count = "no voice" if not ids else f"{len(ids)} voices"
            raise InvalidSetting(f"voice: {count} of this name; `voices` lists them with their ids")
        return ids[0]

    def _voices(self, taken: arguments.Voices, rows: list[Voice]) -> CallToolResult:
        wanted = [
            one
            for one in rows
            if (taken.lang is None or taken.lang in one.languages or not one.languages)
            and (taken.search or "").casefold() in f"{one.name} {one.voice_id}".casefold()
        ]
        return results.voices(wanted[: results.MOST_ROWS], len(wanted))
