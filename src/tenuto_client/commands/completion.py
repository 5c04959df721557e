"""`tenuto completion`: what a shell needs to complete verbs and options, made from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenuto_client.commands import VERBS, parser_of
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Level:
    """What may follow some words: options with their help, values of options, verbs below."""

    words: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    verbs: tuple[tuple[str, str], ...]
    takes_file: bool


def add(parser: Parser, verb: str) -> None:
    """Its argument."""
    parser.add_argument("shell", choices=SHELLS, help=t("put it where your shell looks; see docs/guide"))


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    others: list[str] = options.others
    levels = [level for verb in VERBS for level in _levels((verb,), parser_of(verb))]
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    console.say(writers[options.shell](levels, others))
    return 0


def _levels(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Level]:
    below: list[tuple[str, argparse.ArgumentParser]] = []
    verbs: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    choices: list[tuple[str, tuple[str, ...]]] = []
    takes_file = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = list(action.choices.items())
            verbs = [(pseudo.dest, str(pseudo.help)) for pseudo in action._choices_actions]
            continue
        if action.help == argparse.SUPPRESS:
            continue
        names = [name for name in action.option_strings if name.startswith("--")] or action.option_strings[:1]
        options += [(name, str(action.help)) for name in names]
        if action.choices is not None:
            allowed = tuple(str(choice) for choice in action.choices)
            choices += [(name, allowed) for name in names or [""]]
        takes_file = takes_file or "FILE" in str(action.metavar)
    yield Level(words, tuple(options), tuple(choices), tuple(verbs), takes_file)
    for name, inner in below:
        yield from _levels((*words, name), inner)


def _bash(levels: Sequence[Level], others: Sequence[str]) -> str:
    lines = [
        "_tenuto() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local path="${COMP_WORDS[1]}" found=""',
        '  case "$path" in ' + "|".join(level.words[0] for level in levels if level.verbs) + ")",
        '    [ "$COMP_CWORD" -gt 2 ] && path="$path ${COMP_WORDS[2]}" ;;',
        "  esac",
        f'  if [ "$COMP_CWORD" -eq 1 ]; then found="{" ".join([*VERBS, *others])}"',
        "  else",
        '    case "$path:$before" in',
    ]
    for level in levels:
        path = " ".join(level.words)
        for option, allowed in level.choices:
            if option:
                lines.append(f'      "{path}:{option}") found="{" ".join(allowed)}" ;;')
        words = [name for name, _ in (*level.verbs, *level.options)]
        words += [value for option, allowed in level.choices if not option for value in allowed]
        lines.append(f'      "{path}:"*) found="{" ".join(words)}" ;;')
    lines += [
        "    esac",
        "  fi",
        '  COMPREPLY=($(compgen -W "$found" -- "$current"))',
        '  [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))',
        "}",
        "complete -o filenames -F _tenuto tenuto",
    ]
    return "\n".join(lines)


def _zsh(levels: Sequence[Level], others: Sequence[str]) -> str:
    lines = [
        "#compdef tenuto",
        "_tenuto() {",
        "  local -a found",
        '  local level="${words[2]}"',
        "  case $level in",
    ]
    lines.append("    " + "|".join(level.words[0] for level in levels if level.verbs) + ")")
    lines.append('      (( CURRENT > 3 )) && level="$level ${words[3]}" ;;')
    lines += ["  esac", "  if (( CURRENT == 2 )); then", "    found=("]
    lines += [f"      {_quoted(name, t(about))}" for name, (_, about) in VERBS.items()]
    lines += [f"      {_quoted(name)}" for name in others]
    lines += ["    )", "  else", '    case "$level:${words[CURRENT-1]}" in']
    for level in levels:
        path = " ".join(level.words)
        for option, allowed in level.choices:
            if option:
                lines.append(f'      "{path}:{option}") found=({" ".join(map(_quoted, allowed))}) ;;')
        shown = [_quoted(name, about) for name, about in (*level.verbs, *level.options)]
        shown += [_quoted(value) for option, allowed in level.choices if not option for value in allowed]
        lines.append(f'      "{path}:"*) found=({" ".join(shown)}) ;;')
    lines += [
        "    esac",
        "  fi",
        "  _describe tenuto found || _files",
        "}",
        'if [ "$funcstack[1]" = "_tenuto" ]; then _tenuto "$@"; else compdef _tenuto tenuto; fi',
    ]
    return "\n".join(lines)


def _fish(levels: Sequence[Level], others: Sequence[str]) -> str:
    lines = ["complete -c tenuto -f"]
    lines += [
        f"complete -c tenuto -n __fish_use_subcommand -a {name} -d {_fished(t(about))}"
        for name, (_, about) in VERBS.items()
    ]
    lines += [f"complete -c tenuto -n __fish_use_subcommand -a {name}" for name in others]
    for level in levels:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in level.words)
        allowed = dict(level.choices)
        lines += [
            f"complete -c tenuto -n '{seen}' -a {name} -d {_fished(about)}" for name, about in level.verbs
        ]
        if level.takes_file:
            lines.append(f"complete -c tenuto -n '{seen}' -F")
        for name, about in level.options:
            values = f" -x -a '{' '.join(allowed[name])}'" if name in allowed else ""
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c tenuto -n '{seen}' {flag}{values} -d {_fished(about)}")
        if "" in allowed:
            lines.append(f"complete -c tenuto -n '{seen}' -a '{' '.join(allowed[''])}'")
    return "\n".join(lines)


def _quoted(name: str, about: str = "") -> str:
    """For zsh: `'name:about'`."""
    text = name.replace(":", "\\:") + (f":{about}" if about else "")
    return "'" + text.replace("'", "'\\''") + "'"


def _fished(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
