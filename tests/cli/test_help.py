"""The help texts: whole sentences, for every command and every option."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from everwhen.cli.main import COMMANDS, everwhen

CUT = re.compile(r"[a-z]\.\.\.")  # [ARGS]... and SCHEDULE... are not cut


def every_command() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]

    def walk(names: tuple[str, ...], command: click.Command) -> None:
        if names:
            found.append(names)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk((*names, name), inner)

    walk((), everwhen)
    return found


def command_of(names: tuple[str, ...]) -> click.Command:
    command: click.Command = everwhen
    for name in names:
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        command = inner
    return command


def test_commands_and_options_are_described_in_whole_sentences() -> None:
    for names in every_command():
        command = command_of(names)
        assert command.help is not None, names
        first, *_ = command.help.split("\n\n")
        assert first[0].isupper() and first.rstrip().endswith("."), first
        for option in command.get_params(click.Context(command)):
            if isinstance(option, click.Option):
                about = (option.help or "").partition(" [default")[0]
                assert about.endswith((".", ")")), f"{names} {option.opts}: {about!r}"


def test_no_help_is_cut_off() -> None:
    for names in every_command():
        said = CliRunner().invoke(everwhen, [*names, "--help"])
        assert said.exit_code == 0 and not CUT.search(said.output), names


def test_the_list_of_commands_agrees_with_the_commands() -> None:
    for name, about in COMMANDS.items():
        assert about.endswith((".", ")")) and command_of((name,)).help


@pytest.mark.parametrize(
    ("short", "long"),
    [("status", "system status"), ("upcoming", "schedules upcoming"), ("logs", "jobs logs")],
)
def test_a_short_form_is_the_command_itself(short: str, long: str) -> None:
    assert command_of((short,)) is command_of(tuple(long.split()))


@pytest.mark.parametrize("command", ["schedules list --status", "jobs list --status", "jobs list --origin"])
def test_a_filter_that_no_row_can_have_is_wrong_usage(command: str) -> None:
    result = CliRunner().invoke(everwhen, [*command.split(), "finished"])
    assert result.exit_code == 2
    assert "'finished' is not one of" in result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["schedule"], "schedules"), (["config", "chek"], "check"), (["jobs", "lgos"], "logs")],
)
def test_a_misspelt_command_gets_a_suggestion(typed: list[str], meant: str) -> None:
    refused = CliRunner().invoke(everwhen, typed)
    assert refused.exit_code == 2 and f'Did you mean "{meant}"?' in refused.output


def test_a_command_that_is_like_none_gets_no_suggestion() -> None:
    assert "Did you mean" not in CliRunner().invoke(everwhen, ["xyzzy"]).output
