"""`tenuto` without arguments: what is running, who is logged in, and what to do next. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tenuto_client import settings
from tenuto_client.commands import local
from tenuto_client.commands.console import aligned, masked
from tenuto_client.commands.words import t
from tenuto_client.errors import NotConfigured

if TYPE_CHECKING:
    from tenuto_client.commands import Tree

PATIENCE_S = 0.1
"""How long a service on this machine may take to list its models; other machines are not queried."""
FIRST_STEPS = (
    ('tenuto say "Hello" -o hello.wav', "turn text into speech"),
    ("tenuto transcribe hello.wav", "transcribe a recording"),
    ('tenuto draw "a red circle"', "draw a picture"),
    ("tenuto chat", "chat with a model"),
)


def overview(tree: Tree) -> str:
    """The state, in a few lines, and two to five commands to try next."""
    try:
        login = settings.credentials()
    except NotConfigured:
        login = None
    running = local.services()
    state = [(t("service:"), text) for text in _services(tree, running)]
    state.append((t("login:"), _login(login)))
    if login is not None and urlsplit(login.base_url).hostname in settings.THIS_MACHINE:
        state.append((t("models:"), _models(login)))
    if login is not None or running:
        steps = [(command, t(about)) for command, about in FIRST_STEPS]
    elif "serve" in tree:
        steps = [
            ("tenuto serve", t("run a service on this machine")),
            ('tenuto say "Hello" -o hello.wav', t("then, in another terminal, use it")),
            ("tenuto login URL", t("or use a service elsewhere")),
        ]
    else:
        steps = [("tenuto login URL", t("log in to a service"))]
    steps.append(("tenuto -h", t("list all commands")))
    return "\n".join([*aligned(state), "", *(f"  {line}" for line in aligned(steps)), ""])


def _services(tree: Tree, running: Sequence[local.LocalService]) -> list[str]:
    if running:
        text = "yours runs at {url}, with its data in {folder}"
        return [t(text, url=service.url, folder=service.folder) for service in running]
    return [t("none of yours runs on this machine")] if "serve" in tree else []


def _login(login: settings.Credentials | None) -> str:
    if login is None:
        return t("none yet")
    return t("{url} with the key {key}", url=login.base_url, key=masked(login.api_key))


def _models(login: settings.Credentials) -> str:
    """How many models take jobs."""
    import http.client

    with suppress(OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        status, document = answer(login, "/v1/models", PATIENCE_S)
        if status == 401:
            return t("the key was rejected; log in again with `tenuto login`")
        models = document["data"]
        ready = sum(model["callable"] for model in models)
        return t("{ready} of {all} ready", ready=ready, all=len(models))
    return t("the service does not answer")


def answer(login: settings.Credentials, path: str, patience_s: float) -> tuple[int, Any]:
    """The status and JSON of one request; the client's own driver would take longer to import."""
    import http.client

    address = urlsplit(login.base_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=patience_s)
    headers = {"Authorization": f"Bearer {login.api_key}"}
    connection.request("GET", address.path + path, headers=headers)
    answered = connection.getresponse()
    return answered.status, json.loads(answered.read())
