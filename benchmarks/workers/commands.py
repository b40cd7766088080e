"""The worker of B17: the wall time of a command, from starting the process to its end."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.workers.answering import Timings, answer_until_end

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
        subprocess.run(
            self.command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60
        )


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
    parser.add_argument("option", choices=("version", "help"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(PROGRAMS[options.program](Path(folder), f"--{options.option}"))


if __name__ == "__main__":
    main()
