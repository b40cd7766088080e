"""`everwhen completion SHELL`: the script that makes a shell complete commands, options and schedules."""

from __future__ import annotations

import click

from everwhen.cli.completion import SHELLS, script_of
from everwhen.cli.terminal import print_lines


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell. It completes commands, options, and the ids and keys of schedules.

    Add the line of your shell to its start-up file:

    \b
    eval "$(everwhen completion bash)"        in ~/.bashrc
    eval "$(everwhen completion zsh)"         in ~/.zshrc, after compinit
    everwhen completion fish | source         in ~/.config/fish/config.fish
    """
    print_lines(script_of(shell, click.get_current_context().find_root().command))
