"""Copies whose links do not check who answers."""

import pytest

from tenuto.features.help.unverified_server import unverified


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("postgresql://u@192.0.2.1/t", "192.0.2.1"),
        ("postgresql://u@192.0.2.1,192.0.2.2:5433/t?sslmode=require", "192.0.2.1"),
        ("postgresql://u@192.0.2.1/t?sslmode=verify-full", None),
        ("postgresql://u:p@127.0.0.1:5432,db.example.com:5433/t", "db.example.com:5433"),
        ("postgresql://u@[::1]:5432/t", None),
        ("postgresql://u@/t?host=/run/postgresql", None),
    ],
)
def test_a_host_that_could_be_anybody_is_named(url: str, host: str | None) -> None:
    """`tenuto admin doctor` says so: libpq's default checks no certificate, and does without TLS."""
    assert host == unverified(url)
