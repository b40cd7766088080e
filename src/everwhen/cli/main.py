"""The `everwhen` command: the list of its sub-commands, and nothing of what they do.

Each sub-command is imported only when it runs. The list below holds its one-line help, so that `--help` imports none
of them.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from everwhen.cli.exit_codes import FAILED
from everwhen.cli.terminal import EscapingGroup, print_lines, print_traceback, survive_closed_pipe
from everwhen.errors import SchedulerError
from everwhen.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "init": "Create a starter everwhen.yaml and a sample plugin.",
    "up": "Run the scheduler, workers, the API and the dashboard in one process.",
    "scheduler": "Run only the scheduler; any number of nodes may share one database.",
    "worker": "Run only workers; any number of nodes may share one database.",
    "api": "Run only the API and the dashboard; schedulers and workers are other processes.",
    "config": "Check, show, compare and reload the configuration file.",
    "status": "Show whether the service works, and what is late, held or broken (system status).",
    "upcoming": "List what fires next (schedules upcoming).",
    "logs": "Print the output of a job, or of the newest job of a schedule (jobs logs).",
    "schedules": "List, show, create, change, pause, trigger and backfill schedules.",
    "next": "Explain a cron expression or an interval, with its next instants.",
    "why": "Explain why a slot fired, or why not.",
    "simulate": "Show what this configuration would do, with a virtual clock.",
    "jobs": "List, show, follow, cancel and rerun jobs.",
    "system": "Show the state of the service; pause and resume all schedules; reset breakers.",
    "quiet-hours": "Manage the times in which schedules do not fire.",
    "budgets": "Show what groups, owners and tokens have spent, and what is left.",
    "audit": "List the recorded events.",
    "mcp": "Serve MCP on standard input and output, for agents and their clients.",
    "alerts": "List, acknowledge and silence alerts.",
    "notify": "List and test the rules that send alerts.",
    "token": "Create, list and revoke tokens of the API.",
    "db": "Migrate, check, prune, back up, restore and copy the database.",
    "bench": "Measure the speed on this machine.",
    "import": "Convert the schedules of cron, Celery, APScheduler, Ductile or herdctl to an everwhen.yaml.",
    "completion": "Print the completion script of a shell: bash, zsh or fish.",
}
# Commands that share a module with others, and short forms of commands of a group: module and name there.
_SHARED = {
    "up": ("node", "up"),
    "scheduler": ("node", "scheduler"),
    "worker": ("node", "worker"),
    "status": ("system", "status"),
    "upcoming": ("schedules", "upcoming"),
    "logs": ("jobs", "logs"),
}


class LazyGroup(EscapingGroup):
    """A group that lists its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = _SHARED.get(cmd_name, (cmd_name.replace("-", "_"), "command"))
        command: click.Command = getattr(import_module(f"everwhen.cli.{module}_command"), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option, without importing a command."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name]) for name in names), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="everwhen")
def everwhen() -> None:
    """Run a durable scheduler: every slot of every schedule fires once, or the reason why it did not is on record."""


def main() -> None:
    """Run the command line; print an error of everwhen as one sentence on stderr, with exit code 1."""
    sys.excepthook = print_traceback
    survive_closed_pipe()
    collect_seldom()  # imports make many objects, and no garbage
    try:
        if os.environ.get("_EVERWHEN_COMPLETE"):
            import_module("everwhen.cli.completion").complete(everwhen)
        everwhen(prog_name="everwhen")
    except SchedulerError as error:
        print_lines(f"error: {error}", err=True, fg="red")
        raise SystemExit(FAILED) from None
    finally:
        skip_last_collection()


# Tuning of the garbage collector, only in processes of everwhen's own; a program that embeds everwhen decides
# itself.
#
# Firing a slot creates no reference cycles, and the objects of a batch live until its commit. By default
# Python scans the youngest 700 objects each time there are that many, and everything again and again. It
# scans each batch, and every plan in memory, some dozen times without finding garbage. That took an eighth of
# the time of a cycle.


YOUNG = 20_000  # objects: a pass over them takes a millisecond


def skip_last_collection() -> None:
    """Exclude everything from collection: the interpreter would scan it all again before it ends."""
    gc.freeze()


def collect_seldom() -> None:
    """Collect less often for the rest of the process, and exclude what is already imported from collection."""
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
