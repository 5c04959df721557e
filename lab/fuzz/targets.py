"""What is fuzzed: each target takes any bytes, and raises nothing but what its parser is there to raise.

A target says more than "it did not crash": what is accepted must be what it seems, however it is cut.
"""

import hashlib
import json
import socket
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

from lab.shared import TESTS

from tenuto import strict_json
from tenuto.account import key_rules as accounts
from tenuto.api import artifacts, json_body, query
from tenuto.api.call import Call
from tenuto.api.json_body import decode_name
from tenuto.errors import InvalidRequest, UnsupportedMediaType
from tenuto.features.chat import chat_body as chat
from tenuto.features.chat import upstream
from tenuto.features.decoding import wav
from tenuto.features.history.days import DAY
from tenuto.features.http_guard.framing import framing_fault
from tenuto.features.image import png
from tenuto.features.recognition.flac_child import Digest
from tenuto.features.speech import parameters as speech
from tenuto.features.voices import rules as voices
from tenuto.host import messages
from tenuto.ids import is_id
from tenuto.kind import envelope
from tenuto.media import flac
from tenuto.media.flac import Inspection
from tenuto.rules import Choice
from tenuto_client.sounds.containers import missing_of
from tenuto_client.sounds.layout import sounds_of
from tenuto_client.sounds.source import Source
from tenuto_engine import wire
from tenuto_kokoro import zh_pinyin

Target = Callable[[bytes], None]
CORPORA = TESTS / "corpora"
MAX_SHOWN = 64 * 1024


def read_wav(content: bytes) -> None:
    """What is read has whole frames, all from within the file, and is written the same again."""
    with suppress(wav.WavInvalid):
        found = wav.read_pcm16_wav(content)
        again = wav.read_pcm16_wav(wav.pcm16_wav(bytes(found.frames), found.sample_rate, found.channels))

        assert len(found.frames) == found.frame_count * found.channels * 2 <= len(content)
        assert (found.sample_rate, found.channels, bytes(found.frames)) == (
            again.sample_rate,
            again.channels,
            bytes(again.frames),
        )


def inspect_flac(content: bytes) -> None:
    """A file is counted or refused with a reason, and both the same however its bytes come."""
    found = _inspected([content])

    assert found == _inspected(_pieces(content))
    if not isinstance(found, str):
        assert 1 <= found.channels <= flac.MAX_CHANNELS
        assert 0 < found.frames <= flac.MAX_DURATION_S * found.sample_rate


def walk_recording(content: bytes) -> None:
    """The sounds in a file, whatever it holds: in their order, none of them longer than the file."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        source = Source(cast(BinaryIO, file))
        missing_of(source)
        parts = sounds_of(source).parts
        spans = [piece for part in parts for piece in part.pieces if not isinstance(piece, bytes)]
        assert [end for span in spans for end in span] == sorted(end for span in spans for end in span)
        assert all(0 <= start <= end <= source.size for start, end in spans)


def _inspected(pieces: Iterable[bytes]) -> flac.FlacSummary | str:
    inspection = Inspection()
    for piece in pieces:
        inspection.add(piece)
    try:
        return inspection.finish()
    except flac.FlacInvalid as error:
        return str(error)


def _pieces(content: bytes) -> Iterator[bytes]:
    at, step = 0, 1
    while at < len(content):
        yield content[at : at + step]
        at, step = at + step, step * 2 % 251 + 1


def digest_samples(content: bytes) -> None:
    """The MD5 of samples is that of their bytes, however they come (RFC 9639, 8.2)."""
    bits, content = (8, 16, 24)[len(content) % 3], content[: len(content) // 4 * 4]
    width = bits // 8
    if bits == 16:
        expected = content
    else:
        expected = b"".join(content[at + 4 - width : at + 4] for at in range(0, len(content), 4))
    info = flac.StreamInfo(16_000, 1, bits, 0, hashlib.md5(expected).digest())
    digest, half = Digest(info), len(content) // 8 * 4
    for piece in (content[:half], content[half:]):
        digest.add(memoryview(piece))
    digest.finish()


def read_png(content: bytes) -> None:
    """What is read as a picture has a size that is allowed."""
    with suppress(png.PngInvalid):
        found = png.read_png(content)

        assert 1 <= found.width <= png.MAX_SIDE
        assert 1 <= found.height <= png.MAX_SIDE


def read_json(content: bytes) -> None:
    """What is accepted is what the standard library reads, and keeps its name however it is written."""
    try:
        value = strict_json.parse(content)
    except InvalidRequest as error:
        _told(error)
        return
    written = json.dumps(value, ensure_ascii=len(content) % 2 == 0, indent=len(content) % 3).encode()

    assert json.loads(written, parse_int=float) == json.loads(content, parse_int=float)
    assert strict_json.body_sha256(json.loads(written)) == strict_json.body_sha256(strict_json.parse(written))


def read_bodies(content: bytes) -> None:
    """Any JSON is a request of its kind or is refused, with every fault named in words that may be shown."""
    try:
        value = strict_json.parse(content)
    except InvalidRequest:
        return
    found, faults = envelope.check(value)
    _said(faults)
    if found is not None:
        _said(speech.check(found.parameters)[1])
    _said(chat.check(value)[1])
    for parse in (voices.parse_renaming, voices.parse_preference):
        with suppress(InvalidRequest):
            parse(value)


def read_headers(content: bytes) -> None:
    """Names, keys, checksums, ranges and the framing of any bytes: read, or refused."""
    lines = content.split(b"\n")
    headers = [(line.partition(b":")[0].lower(), line.partition(b":")[2]) for line in lines[:100]]
    framing_fault("1.1", headers)
    call = _call(headers, lines[0])
    faults: list[Any] = []
    with suppress(UnsupportedMediaType):
        json_body.media_type(call)
    json_body.content_sha256(call, faults)
    json_body.idempotency_key(call, faults)
    _said(faults)
    for line in lines[:8]:
        name = decode_name(line)
        if name is not None:
            name.encode()
            voices.name_fault("name", name)
        call = _call([(b"range", line)], b"")
        span = artifacts._range(call, b'"etag"', 1000)
        assert span is None or (span[0] >= 0 and span[1] <= 1000)
    text = content[:200].decode("latin-1")
    assert not (is_id(text, "job") and not text.isascii())
    accounts.is_well_formed(text)


def read_query(content: bytes) -> None:
    """A query has each name once, and only what its rules let through."""
    rules: query.Rules = {
        "limit": query.LIMIT,
        "after": query.cursor("job"),
        "since": DAY,
        "state": Choice(("queued",)),
        "model": query.text("a model"),
    }
    for tolerant in (False, True):
        try:
            found = query.read_query(_call([], content.replace(b"\n", b"")), rules, tolerant=tolerant)
        except InvalidRequest as error:
            _told(error)
            continue
        assert 1 <= query.limit_of(found) <= query.MAX_LIMIT
        assert "\0" not in found.get("model", "")


def read_message(content: bytes) -> None:
    """A stream of a host is messages up to its first fault; a message is written as it was read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(content[: 1 << 15])
        theirs.shutdown(socket.SHUT_WR)
        with suppress(wire.WireError):
            while (message := wire.read_message(ours)) is not None:
                header, body = message
                assert isinstance(header["type"], str)
                assert b"".join(wire.encode(header, [body])).endswith(body)
                with suppress(messages.Malformed):
                    messages.parse(header, body)


def read_upstream(content: bytes) -> None:
    """Whatever an upstream says is an answer, pieces of one, or garbage; cut anywhere it is the same."""
    allowed = (upstream.Garbage, ValueError)
    request = chat.ChatRequest(model="a/b", messages=(), logprobs=True, n=2)
    with suppress(*allowed):
        answer = upstream.completion(content, request)
        assert answer.usage.prompt_tokens >= 0
    heard = []
    for cut in (len(content), len(content) // 2):
        events, texts = upstream.Events(1 << 20, request), ""
        with suppress(*allowed):
            for block in (content[:cut], content[cut:]):
                for piece in events.add(block):
                    texts += piece.all_text
        heard.append(texts)
    assert heard[0] == heard[1]


def read_annotations(content: bytes) -> None:
    """In any text only one Han character with a syllable that there is counts as a chosen reading."""
    text = content.decode("utf-8", "ignore")
    for found in zh_pinyin.ANNOTATION.finditer(text):
        reading = zh_pinyin.chosen(found)
        assert len(found["character"]) == 1
        assert reading is None or reading[-1] in "12345"


TARGETS: dict[str, tuple[Target, tuple[str, ...]]] = {
    "wav": (read_wav, ("wav",)),
    "flac": (inspect_flac, ("flac",)),
    "recording": (walk_recording, ("wav", "flac")),
    "flac-digest": (digest_samples, ()),
    "png": (read_png, ("png",)),
    "json": (read_json, ("json",)),
    "bodies": (read_bodies, ("json",)),
    "headers": (read_headers, ("http",)),
    "query": (read_query, ("query",)),
    "host-wire": (read_message, ("message",)),
    "upstream": (read_upstream, ("upstream",)),
    "annotations": (read_annotations, ("annotation",)),
}
"""Every target, and the corpora that its inputs are grown from."""


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """What a target's inputs are grown from, the shortest first."""
    found = [content for kind in TARGETS[name][1] for content in _seeds(kind)]
    return tuple(sorted([*found, b""], key=len))


def _seeds(kind: str) -> Iterator[bytes]:
    yield from _MADE.get(kind, ())
    for path in sorted((CORPORA / kind).glob("*")):
        if path.stat().st_size <= MAX_SHOWN:
            yield path.read_bytes()


_MESSAGE = b'{"type":"segment","run":"r","metadata":{"a":1}}'
_CHAT = (
    b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":2}}'
)
_EVENT = (
    b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
    b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_MADE: dict[str, tuple[bytes, ...]] = {
    "query": (b"limit=5&after=job_01jd4k0a3v6c8e9g2h5m7n0p1q&model=%E5%A3%B0&state=queued&since=2026-11-21",),
    "message": (struct.pack("!II", len(_MESSAGE), 4) + _MESSAGE + b"\0\1\2\3",),
    "upstream": (_CHAT, _EVENT),
    "annotation": ("银<行|XING2>行<长|zhang3>，<女|nü3><x|xing2><行|xing9><行|".encode(),),
    "png": (
        bytes.fromhex(
            "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
            "0000000c4944415478da63606060000000040001f61738550000000049454e44ae426082"
        ),
    ),
}
"""What has no folder: one of each, to begin with."""


def _call(headers: list[tuple[bytes, bytes]], query_string: bytes) -> Call:
    """A request of these headers and this query; the service behind it is not asked."""
    call = Call.__new__(Call)
    call.scope = {"headers": headers, "query_string": query_string}
    call.service = cast(Any, SimpleNamespace())
    return call


def _told(error: InvalidRequest) -> None:
    assert error.message
    _said(error.faults)


def _said(faults: list[Any]) -> None:
    """Faults may be sent back: they have words, and no half characters."""
    for fault in faults:
        assert fault.code and fault.message
        assert fault.param.encode()
        assert fault.message.encode()
