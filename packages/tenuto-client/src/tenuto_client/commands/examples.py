"""Examples for the help of every command: a command's help shows those that begin with its words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

MOST = 3
"""The most examples that one help text shows."""

LINES = (
    "tenuto login --local",
    "tenuto login https://tenuto.example.com",
    "tenuto logout",
    "tenuto whoami --json",
    'tenuto say "Hello" -o hello.wav',
    "tenuto say story.txt --voice Ann --play",
    "tenuto say - --lang ja -o speech.mp3 < text.txt",
    "tenuto transcribe talk.mp3",
    "tenuto transcribe talk.flac --lang en -o talk.srt",
    'tenuto draw "a red circle" -o circle.png',
    'tenuto draw "a cat" --size 512x512 --seed 7',
    "tenuto batch lines.csv -o results",
    "tenuto batch talks.jsonl -o subtitles --to srt --in-flight 8",
    "tenuto batch lines.csv -o results --again",
    "tenuto watch recordings",
    "tenuto watch recordings -o subtitles --to srt",
    "tenuto watch texts --to mp3 --once",
    "tenuto mcp ~/Tenuto",
    "tenuto mcp ~/Tenuto --url https://tenuto.example.com",
    'tenuto chat "In Python, how do I reverse a string?"',
    "tenuto chat",
    "tenuto voices list --kind own",
    "tenuto voices add me.wav --name Me",
    "tenuto voices show Me -o me.wav",
    "tenuto voices remove Me",
    "tenuto models --kind speech",
    "tenuto jobs list --state running",
    "tenuto jobs show JOB",
    "tenuto jobs download JOB -o result.wav",
    "tenuto jobs wait JOB --timeout 60",
    "tenuto jobs cancel JOB",
    "tenuto webhooks add https://example.com/tenuto",
    "tenuto webhooks add https://example.com/tenuto --event job.failed --event balance.low",
    "tenuto webhooks list",
    "tenuto webhooks test WEBHOOK",
    "tenuto webhooks deliveries WEBHOOK --limit 5",
    "tenuto webhooks remove WEBHOOK",
    "tenuto resume",
    "tenuto resume --list",
    "tenuto balance",
    "tenuto balance --ledger 10",
    "tenuto usage --since 2026-11-01",
    "tenuto completion --install",
    "tenuto completion fish --install",
    "tenuto completion zsh > _tenuto",
)
"""Examples of the caller's commands."""

_MODULES: list[str] = []


def add(module: str) -> None:
    """Register another module with LINES, for a distribution that adds commands."""
    if module not in _MODULES:
        _MODULES.append(module)


def of(command: str) -> Sequence[str]:
    """Up to MOST examples of a command, `tenuto …`, and of those below it."""
    lines = [*LINES, *(line for name in _MODULES for line in import_module(name).LINES)]
    return [line for line in lines if f"{line} ".startswith(f"{command} ")][:MOST]
