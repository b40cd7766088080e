"""`command-line.md`: every command with its arguments and options."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from everwhen.cli.main import COMMANDS, everwhen
from tools.reference.markdown import code, fence, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """`everwhen COMMAND --help` shows the same. Data is on standard output, all else on standard
error; commands with `--json` print what the REST API answers. The [guide](../guide/cli.md) explains which
service or database a command uses; [exit codes](exit-codes.md) and [variables](environment.md) have their own
pages."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Return every command that does something, with its full name."""
    context = click.Context(everwhen, info_name="everwhen")
    for name in COMMANDS:
        command = everwhen.get_command(context, name)
        assert command is not None
        yield from _leaves(name, command, context)


def _leaves(name: str, command: click.Command, parent: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command, info_name=name, parent=parent)
    if command.invoke_without_command:
        yield name, command
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None
        yield from _leaves(f"{name} {inner}", found, context)


def page() -> str:
    found = list(commands())
    rows = (
        (f"[{code(f'everwhen {name}')}](#everwhen-{name.replace(' ', '-')})", _summary(one))
        for name, one in found
    )
    parts = [part for name, command in found for part in _command(name, command)]
    return make_page("Command line", INTRODUCTION, table(("command", ""), rows), *parts)


def _summary(command: click.Command) -> str:
    return prose(re.split(r"(?<=\.)\s", (command.help or "").strip().partition("\n\n")[0], maxsplit=1)[0])


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"everwhen {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## `everwhen {name}`"
    yield f"{code(f'everwhen {name} {usage}'.strip())}"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _paragraph(paragraph)
    rows = [
        _option(one)
        for one in command.get_params(context)
        if isinstance(one, click.Option) and _is_listed(one)
    ]
    yield table(("option", "value", "meaning"), rows)


def _is_listed(option: click.Option) -> bool:
    # click keeps the option of the first context that asked for it, with or without -h.
    return not option.hidden and "--help" not in option.opts


def _paragraph(text: str) -> str:
    if "\b" in text:  # click leaves the lines of such a paragraph as they are
        lines = textwrap.dedent(text.replace("\b", "").strip("\n"))
        return f"<!-- not run: the help of a command -->\n{fence('text', lines)}"
    return prose(text)


def _option(option: click.Option) -> tuple[str, str, str]:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    return names, _value(option), prose(option.help or "")


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        return ", ".join(code(str(choice)) for choice in option.type.choices)
    return code(option.metavar or option.type.name.upper())
