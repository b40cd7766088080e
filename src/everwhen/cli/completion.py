"""Completion for bash, zsh and fish: the scripts, the answers to a shell, and the names of schedules.

A shell calls the command at each press of the Tab key. So completion is quick, and whatever goes wrong prints nothing.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, ClassVar

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

SHELLS = ("bash", "zsh", "fish")
PROGRAM, VARIABLE = "everwhen", "_EVERWHEN_COMPLETE"
PATIENCE = 2.0  # seconds for a service that does not answer
# What no shell has to quote; a name with anything else is not offered.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


class WholeLineBash(BashComplete):
    """Bash, with the whole line instead of its words: bash splits `sqlite:///everwhen.db` at the colon."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = """\
%(complete_func)s() {
    local response completion type value word
    COMPREPLY=()
    word="${COMP_LINE:0:COMP_POINT}"
    response=$(env COMP_WORDS="$word" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    word="${word##* }"
    while IFS=',' read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                # What bash takes for the word begins after the last colon.
                if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
                    value="${value#"${word%%"${word##*:}"}"}"
                fi
                COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def source(self) -> str:
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        return (words[1:], "") if not line or line[-1].isspace() else (words[1:-1], words[-1])


class WholeHelpFish(FishComplete):
    """Fish, with descriptions that may have commas: the script of click cuts them there."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


def script_of(shell: str, root: click.Command) -> str:
    """Return the script that makes a shell complete our commands."""
    _add_our_classes()
    found = get_completion_class(shell)
    assert found is not None, shell  # click has all three
    return found(root, {}, PROGRAM, VARIABLE).source()


def _add_our_classes() -> None:
    for each in (WholeLineBash, WholeHelpFish):
        add_completion_class(each)


def complete(root: click.Command) -> None:
    """Answer a shell, if that is what the environment asks for, and exit."""
    shell, _, wanted = os.environ[VARIABLE].partition("_")
    _add_our_classes()
    found: type[ShellComplete] | None = get_completion_class(shell)
    if found is None or wanted != "complete":
        return  # click prints its script for `bash_source`
    from everwhen.cli.terminal import print_lines

    with suppress(Exception):  # a traceback would be printed into the command line that is being typed
        print_lines(found(root, {}, PROGRAM, VARIABLE).complete())
    raise SystemExit(0)


def complete_schedule(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id or the key of a schedule, from the service or the database that the command line names."""
    from everwhen.cli.connection import opened_client

    given: dict[str, Any] = {key: ctx.params.get(key) for key in ("url", "token", "path", "database")}
    with opened_client(**given, patience=PATIENCE) as client:
        found = client.get("/find/", beginning=incomplete)["items"]
    names = [(one["key"] or one["id"], one["name"]) for one in found]
    taken = _taken(ctx)
    return [
        CompletionItem(name, help=_described(name, text))
        for name, text in names
        if _PLAIN.fullmatch(name) and name not in taken
    ]


def _taken(ctx: click.Context) -> tuple[str, ...]:
    """Return the schedules that the line names already."""
    return tuple(ctx.params.get("schedules") or ())


def _described(name: str, text: str) -> str | None:
    plain = re.sub(r"[^\w .-]", "", text)
    return plain if plain and plain != name else None
