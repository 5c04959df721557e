"""A refused upload's answer reaches a plain client, which sends everything before it looks."""

import hashlib
import http.client
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from servers.callers import ON_ONE_DATABASE, Operator
from tenuto.account.key_rules import make_key

MIB = 1024 * 1024
PIECE = bytes(MIB)
LARGEST = 256 * MIB


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    ("media_type", "size_bytes", "refusal"),
    [
        ("audio/flac", LARGEST + 1, (413, "payload_too_large")),
        ("audio/wav", 50 * MIB, (415, "unsupported_media_type")),
        ("audio/flac", 20 * MIB, (401, "invalid_api_key")),
    ],
)
def test_the_answer_reaches_a_client_that_sends_everything_first(
    operator: Operator, media_type: str, size_bytes: int, refusal: tuple[int, str]
) -> None:
    """`http.client` writes the whole body, then reads: it gets the 413, 415 or 401 each time."""
    key = make_key(secrets.randbelow) if refusal[0] == 401 else operator.caller().key
    answers = [upload(operator, key, media_type, size_bytes) for _ in range(3)]

    assert [refusal] * 3 == answers


def upload(operator: Operator, key: str, media_type: str, size_bytes: int) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", operator.service.port, timeout=60)
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": media_type,
        "Content-Length": str(size_bytes),
        "X-Service-Content-SHA256": hashlib.sha256(b"").hexdigest(),
    }
    connection.request("POST", "/v1/input-artifacts", body=pieces(size_bytes), headers=headers)
    answer = connection.getresponse()
    code = json.loads(answer.read())["error"]["code"]
    connection.close()
    return answer.status, code


def pieces(size_bytes: int) -> Iterator[bytes]:
    for _ in range(size_bytes // MIB):
        yield PIECE
    yield PIECE[: size_bytes % MIB]
