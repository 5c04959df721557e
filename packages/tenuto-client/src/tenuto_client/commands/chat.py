"""`tenuto chat`: one question and its answer, or a conversation in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tenuto_client import chat as flows
from tenuto_client import reads
from tenuto_client.commands import streams
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t, translated
from tenuto_client.errors import ChatInterrupted, InvalidSetting
from tenuto_client.parameters import ChatMessage, ChatParameters
from tenuto_client.steps import Lost


def add(parser: Parser, verb: str) -> None:
    """Declare the options."""
    help_text = t("the question; - reads stdin; without it, a terminal starts a conversation")
    parser.add_argument("message", metavar="MESSAGE", nargs="?", help=help_text)
    group = parser.add_argument_group(t("answer"))
    group.add_argument("--system", metavar="TEXT", help=t("the system prompt"))
    group.add_argument(
        "--model", metavar="MODEL", help=t("see `tenuto models` (default: the first that is callable)")
    )
    group.add_argument("--max-tokens", type=int, metavar="N", help=t("the maximum length of the answer"))
    group.add_argument(
        "--temperature", type=float, metavar="X", help=t("0 to 2; 0 always picks the most likely token")
    )
    group.add_argument("--seed", type=int, metavar="N", help=t("the same seed gives the same answer"))
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Answer one question, or hold a conversation."""
    message = options.message
    if message == "-" or (message is None and not sys.stdin.isatty()):
        message = _of_stdin()
    if message == "":
        raise InvalidSetting(t("the question is empty"))
    model = options.model or console.run(reads.model_for(console.link, "chat"))
    messages: list[ChatMessage] = []
    if options.system:
        messages.append({"role": "system", "content": options.system})
    if message is None:
        return _converse(options, console, model, messages)
    messages.append({"role": "user", "content": message})
    if console.as_json:
        request = flows.request_of(model, messages, _parameters(options), stream=False)
        console.document(dict(console.run(flows.complete(console.link, request)).raw))
        return 0
    _answer(options, console, model, messages)
    return 0


def _of_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidSetting(t("{name} is not UTF-8 text", name=t("stdin"))) from error


def _converse(options: argparse.Namespace, console: Console, model: str, messages: list[ChatMessage]) -> int:
    console.tell(t("{model}; an empty line or Ctrl-D quits", model=model))
    while True:
        try:
            sys.stderr.write("> ")
            sys.stderr.flush()
            question = input().strip()
        except EOFError:
            question = ""
        except UnicodeDecodeError:
            console.tell(t("{name} is not UTF-8 text", name=t("stdin")))
            continue
        if not question:
            return 0
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": _answer(options, console, model, messages)})


def _answer(options: argparse.Namespace, console: Console, model: str, messages: list[ChatMessage]) -> str:
    """Write the answer to stdout as it arrives."""
    request = flows.request_of(model, messages, _parameters(options), stream=True)
    console.progress.stage(t("waiting for the answer"))
    live: Any = console.run(flows.opened(console.link, request)).live
    events, pieces = flows.Events(), []
    try:
        for block in console.driver.blocks(live):
            for chunk in events.feed(block):
                console.progress.clear()
                pieces.append(chunk.content)
                streams.write(chunk.content)
    except Lost as error:
        raise ChatInterrupted(t("the answer was cut off: {why}", why=translated(str(error)))) from error
    finally:
        console.progress.clear()
        streams.write("\n")
    events.check()
    return "".join(pieces)


def _parameters(options: argparse.Namespace) -> ChatParameters:
    parameters: ChatParameters = {}
    if options.max_tokens is not None:
        parameters["max_tokens"] = options.max_tokens
    if options.temperature is not None:
        parameters["temperature"] = options.temperature
    if options.seed is not None:
        parameters["seed"] = options.seed
    return parameters
