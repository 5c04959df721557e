"""A job's result as a file in the requested form: unchanged, rendered by the service, or converted here.

The service renders sound and images from the verified artifact. Transcripts are written here, and M4A by
ffmpeg from the verified WAV. Flows that `drive` runs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tenuto_client import downloads, transcripts
from tenuto_client.errors import AudioError, FFmpegFailed, InvalidSetting
from tenuto_client.exchange import Link
from tenuto_client.records import RESULT_TYPES, Artifact
from tenuto_client.steps import Do, Flow, OnBytes, path_of

NATIVE = {"speech": "wav", "image": "png", "recognition": "json"}
"""The form of each kind's artifact."""
RENDERED = {
    "speech": {"mp3": "audio/mpeg", "opus": "audio/ogg", "flac": "audio/flac"},
    "image": {"webp": "image/webp", "jpeg": "image/jpeg"},
}
"""The forms that the service renders, with their media types."""
FORMS = {
    "speech": ("wav", *RENDERED["speech"], "m4a"),
    "image": ("png", *RENDERED["image"]),
    "recognition": transcripts.FORMS,
}
"""All forms of each kind."""
SUFFIXES = {"jpeg": ".jpg"}
"""File suffixes that differ from the form's name."""
_OF_SUFFIX = {"jpg": "jpeg", "ogg": "opus"}


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete file."""

    size_bytes: int
    sha256: str


def kind_of(artifact: Artifact) -> str:
    """The kind of job that made the artifact, by its media type."""
    return next((kind for kind, made in RESULT_TYPES.items() if made == artifact.media_type), "speech")


def form_of(kind: str, path: Path) -> str | None:
    """The form that a file's suffix stands for; None if it is none of this kind."""
    suffix = path.suffix.removeprefix(".").lower()
    form = _OF_SUFFIX.get(suffix, suffix)
    return form if form in FORMS[kind] else None


def suffix_of(form: str) -> str:
    """The suffix of a file of this form."""
    return SUFFIXES.get(form, f".{form}")


def forms_by_kind(names: Iterable[str]) -> dict[str, str]:
    """The form of each kind that `names` has one for. Raises InvalidSetting for a name that is no form."""
    chosen: dict[str, str] = {}
    for name in names:
        kinds = [kind for kind, forms in FORMS.items() if name in forms]
        if not kinds:
            known = ", ".join(form for forms in FORMS.values() for form in forms)
            raise InvalidSetting(f"{name} is not a format of results; choose from {known}")
        check(name)
        chosen[kinds[0]] = name
    return chosen


def check(form: str) -> None:
    """Raises AudioError, before any work, if this machine cannot write the form."""
    if form == "m4a" and shutil.which("ffmpeg") is None:
        raise AudioError("M4A needs ffmpeg on the PATH; mp3, opus and flac do not")


def save(
    link: Link,
    artifact: Artifact,
    path: Path,
    *,
    kind: str,
    form: str = "",
    job_id: str = "",
    on_bytes: OnBytes | None = None,
) -> Flow[Saved]:
    """Save a result in a form, by default its native one: complete, or not at all.

    Raises ContentMismatch, AudioError, InvalidSetting, OSError.
    """
    form = form or NATIVE[kind]
    if form not in FORMS[kind]:
        raise InvalidSetting(f"{form} is not a format of results; choose from {', '.join(FORMS[kind])}")
    if form == NATIVE[kind]:
        yield from downloads.save(link, artifact, path, job_id=job_id, on_bytes=on_bytes)
        return Saved(artifact.size_bytes, artifact.sha256)
    if media_type := RENDERED.get(kind, {}).get(form):
        # The size is unknown, but must not be 0, or `fetch` would take nothing for the whole.
        unknown = Artifact(artifact.id, media_type, 1, "")
        file: _Rendition = yield Do(
            lambda: _Rendition(unknown, path, job_id or artifact.id, on_bytes), _Rendition.close
        )
        return (yield from _rendered(link, artifact.id, form, file))
    check(form)
    whole = yield from downloads.load(link, artifact)
    content: bytes = yield Do(lambda: _m4a(whole) if form == "m4a" else formed(whole, form))
    yield Do(lambda: downloads.write(path, content))
    return Saved(len(content), hashlib.sha256(content).hexdigest())


def formed(content: bytes, form: str) -> bytes:
    """A transcript converted to its form; anything else unchanged."""
    if form not in ("txt", "srt", "vtt"):
        return content
    return transcripts.written(json.loads(content), form).encode()


class _Rendition(downloads.File):
    """A download of which only the media type is known in advance; the service always sends all of it."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        super().begin(status, headers)
        self.size_bytes = int(headers.get("content-length", 0))

    def fault(self) -> str | None:
        self._drain()
        self._store(self._take_pending())
        self.sha256 = self._hash.hexdigest()
        return super().fault()


def _rendered(link: Link, artifact_id: str, form: str, file: _Rendition) -> Flow[Saved]:
    where = path_of("artifacts", artifact_id, "rendition")
    try:
        yield from downloads.fetch(link, where, file, name=artifact_id, query={"form": form})
    finally:
        file.close()
    return Saved(file.size_bytes, file.sha256)


def _m4a(wav: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tenuto-") as folder:
        target = Path(folder, "sound.m4a")
        command = ["ffmpeg", "-v", "error", "-f", "wav", "-i", "pipe:0", "-c:a", "aac", str(target)]
        done = subprocess.run(command, input=wav, capture_output=True, check=False)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it gives no reason"]
            raise FFmpegFailed("ffmpeg cannot write M4A", lines[-1])
        return target.read_bytes()
