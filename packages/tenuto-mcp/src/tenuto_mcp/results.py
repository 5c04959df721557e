"""What tools answer: a sentence for the assistant, the facts as JSON, a link, and a small preview."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent

from tenuto_client.errors import FFmpegFailed, JobCancelled, JobFailed, TenutoError
from tenuto_client.records import Model, Operation, Voice

PREVIEW_BYTES = 64 * 1024
"""The largest image that is shown in an answer; base64 makes it a third larger."""
PREVIEW_CHARACTERS = 2000
"""How much of a transcript is shown in an answer."""
MOST_ROWS = 50
"""How many voices one answer lists."""
MEDIA_TYPES = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "png": "image/png",
    "webp": "image/webp",
    "jpeg": "image/jpeg",
    "txt": "text/plain",
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "json": "application/json",
}


def answer(text: str, facts: Mapping[str, Any], *more: ContentBlock) -> CallToolResult:
    """A result: the text first, then links and previews."""
    content: list[ContentBlock] = [TextContent(text=text), *more]
    return CallToolResult(content=content, structured_content=dict(facts))


def fault(error: Exception) -> CallToolResult:
    """An error as the assistant reads it: what is wrong and what would be right, nothing that ffmpeg said."""
    if isinstance(error, TenutoError):
        text = error.summary if isinstance(error, FFmpegFailed) else error.message
        code = error.code
        if isinstance(error, JobFailed | JobCancelled):
            text += "; the same request with the next number as `take` makes another job"
        elif error.remedy and error.remedy != "tenuto resume":
            text += f" (run `{error.remedy}` in a terminal)"
    else:
        assert isinstance(error, OSError)
        name = Path(os.fsdecode(error.filename)).name if isinstance(error.filename, str | bytes) else "a file"
        text, code = f"{name}: {error.strerror or 'it cannot be used'}", "file_error"
    return CallToolResult(
        content=[TextContent(text=text)], structured_content={"error": code, "message": text}, is_error=True
    )


def link(uri: str, name: str, form: str, size_bytes: int | None) -> ResourceLink:
    """A link to a result; the size of a rendition is not known before it is made."""
    return ResourceLink(uri=uri, name=name, mime_type=MEDIA_TYPES.get(form), size=size_bytes)


def image(content: bytes, form: str) -> ImageContent:
    """A preview."""
    return ImageContent(data=base64.b64encode(content).decode(), mime_type=MEDIA_TYPES[form])


def excerpt(transcript: str) -> str:
    """The beginning of a transcript."""
    text = transcript.strip()
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    return f"{text[:PREVIEW_CHARACTERS]}… ({len(text)} characters in all)"


def facts_of(operation: Operation) -> dict[str, Any]:
    """A job as JSON."""
    facts: dict[str, Any] = {"job_id": operation.id, "state": operation.state}
    facts |= {"kind": operation.kind, "model": operation.model}
    if operation.queue_position:
        facts["queue_position"] = operation.queue_position
    if operation.progress is not None:
        progress = operation.progress
        facts["progress"] = {
            "stage": progress.stage,
            "completed": progress.completed,
            "total": progress.total,
            "unit": progress.unit,
        }
    if operation.error is not None:
        facts["error"] = {"code": operation.error.code, "message": operation.error.message}
    if operation.billing is not None:
        facts["charged"] = f"{operation.billing.charged} {operation.billing.currency}"
    warnings = (operation.result or {}).get("warnings")
    if isinstance(warnings, list) and warnings:
        facts["warnings"] = warnings
    return {name: value for name, value in facts.items() if value is not None}


def sentence(operation: Operation) -> str:
    """A job in words: its cost, and what the engine warns of."""
    facts = facts_of(operation)
    charged = f", {facts['charged']}" if "charged" in facts else ""
    warnings = "".join(f"\nWarning: {text}" for text in facts.get("warnings", ()))
    return f"Job {operation.id}{charged}.{warnings}"


def unfinished(operation: Operation, message: str) -> CallToolResult:
    """A job that continues after the call."""
    text = (
        f"Job {operation.id} is not finished yet ({message}). It continues by itself: call `job` with this "
        "id and `wait_s` for its result. Do not send the request again as another one."
    )
    return answer(text, facts_of(operation))


def voices(rows: Sequence[Voice], total: int) -> CallToolResult:
    """A list of voices."""
    facts = [
        {"voice_id": one.voice_id, "name": one.name, "kind": one.kind, "languages": list(one.languages)}
        for one in rows
    ]
    lines = [f"{one.voice_id}: {one.name} ({', '.join(one.languages) or one.kind})" for one in rows]
    if total > len(rows):
        lines.append(f"… and {total - len(rows)} more: use `lang` and `search`")
    return answer("\n".join(lines) or "No voice matches.", {"voices": facts, "total": total})


def models(rows: Sequence[Model]) -> CallToolResult:
    """A list of models."""
    facts = [
        {
            "id": one.id,
            "kind": one.kind,
            "callable": one.callable,
            "languages": list(one.languages),
            "pricing": dict(one.pricing or {}),
            **({"reason": one.callable_reason} if one.callable_reason else {}),
        }
        for one in rows
    ]
    lines = [
        f"{one.id} ({one.kind}){'' if one.callable else f': takes no work now, {one.callable_reason}'}"
        for one in rows
    ]
    return answer("\n".join(lines) or "No model.", {"models": facts})
