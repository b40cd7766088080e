"""The worker of B17 and B19: a command, from starting its process to its end; by wall time, or by CPU time."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.sizes import accept_sizes

BARE_CLICK = '''\
import click


@click.command()
@click.version_option("1.0", prog_name="hello")
@click.option("--name", default="world", help="Whom to greet.")
def main(name: str) -> None:
    """Greets."""
    click.echo(f"Hello, {name}!")
'''

# The form that installers give a console script: an absolute interpreter path, an import, a call.
CONSOLE_SCRIPT = """\
#!{python}
import sys
from bare_click import main
if __name__ == "__main__":
    sys.exit(main())
"""


# Both programs run from cached bytecode, as installed ones do.
CACHING = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Starting:
    """Runs `script option` once per part. The digest is empty, because two programs print two texts."""

    def __init__(self, script: Path, distribution: str, option: str) -> None:
        self.command = [str(script), option]
        self.option = option
        self.version = version(distribution)

    def check(self) -> dict[str, str]:
        self.start()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        began = perf_counter()
        self.start()
        return {self.option: (perf_counter() - began, 1)}

    def start(self) -> None:
        done = subprocess.run(
            self.command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=60,
            env=CACHING,
        )
        # `system status` ends with 1 where no scheduler runs, as here.
        assert done.returncode in ((0, 1) if "status" in self.command else (0,)), self.command


class Reading(Starting):
    """Runs a command that reads, and counts CPU time: the goal is how much there is to do, not who else is busy."""

    def __init__(self, command: list[str], distribution: str, what: str) -> None:
        super().__init__(Path(command[0]), distribution, what)
        self.command = command

    def run(self, _part: int, _parts: int) -> Timings:
        before = _cpu_of_children()
        self.start()
        return {self.option: (_cpu_of_children() - before, 1)}


def _cpu_of_children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reading(folder: Path, program: str, what: str) -> Reading:
    """A reading command on a database with one schedule; of bare click, a program that prints a line."""
    if program == "click":
        return Reading(click(folder, "").command[:1], "click", what)
    script, url = str(Path(sys.executable).parent / "everwhen"), f"sqlite:///{folder / 'everwhen.db'}"
    schedule = {"name": "report", "cron": "0 9 * * 1-5", "run": {"message": {"text": "hello"}}}
    (folder / "schedule.json").write_text(json.dumps(schedule))
    subprocess.run([script, "db", "migrate", "--database", url], check=True, capture_output=True, timeout=60)
    create = [script, "schedules", "create", "--file", str(folder / "schedule.json"), "--json"]
    made = subprocess.run([*create, "--database", url], check=True, capture_output=True, timeout=60)
    words = [json.loads(made.stdout)["id"] if word == "ID" else word for word in READING[what]]
    return Reading([script, *words, "--database", url], "everwhen", what)


READING = {
    "schedules-list": ("schedules", "list"),
    "why": ("why", "ID"),
    "jobs-list": ("jobs", "list"),
    "system-status": ("system", "status"),
}


def everwhen(_folder: Path, option: str) -> Starting:
    return Starting(Path(sys.executable).parent / "everwhen", "everwhen", option)


def click(folder: Path, option: str) -> Starting:
    """Create a module next to its script, so that its bytecode is cached like that of an installed one."""
    (folder / "bare_click.py").write_text(BARE_CLICK)
    script = folder / "hello"
    script.write_text(CONSOLE_SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    return Starting(script, "click", option)


PROGRAMS: dict[str, Callable[[Path, str], Starting]] = {"everwhen": everwhen, "click": click}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("option", choices=("version", "help", *READING))
    accept_sizes(parser)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="everwhen-bench-") as folder:
        if options.option in READING:
            answer_until_end(reading(Path(folder), options.program, options.option))
        else:
            answer_until_end(PROGRAMS[options.program](Path(folder), f"--{options.option}"))


if __name__ == "__main__":
    main()
