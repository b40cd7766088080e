"""`everwhen init`: a starter configuration that runs."""

from __future__ import annotations

from pathlib import Path

import click

from everwhen.cli.screen import Answers, answering
from everwhen.cli.terminal import echo, secho
from everwhen.clock import local_zone_name
from everwhen.config.files import real_path
from everwhen.errors import TimetableError

FILE = """\
# everwhen.yaml: check it with `everwhen config check`, run it with `everwhen up`.
service:
  name: {name}
  database: sqlite:///everwhen.db
  timezone: {timezone}

plugins:                       # programs with JSON on standard input and output; see plugins/hello
  hello:
    schedules:
      - id: greet
        command: poll
        every: 30s
        payload: {{name: world}}

schedules:                     # anything: a command, an HTTP request, a Python function, a message
  - id: heartbeat
    every: 10s
    run: {{command: [date]}}
  - id: weekday-report
    cron: "0 9 * * 1-5"
    max_retries: 3
    run: {{command: [echo, "the report would be sent now"]}}
"""
MANIFEST = """\
manifest_spec: ductile.plugin
manifest_version: 1
name: hello
version: 0.1.0
protocol: 2
entrypoint: hello.py
commands:
  - name: poll
    type: read
    description: Returns a greeting, and counts how often it did.
    input_schema: {name: string}
"""
PLUGIN = """\
#!/usr/bin/env python3
\"\"\"A plugin: one JSON object in, one out. `state` is what its last run left in `state_updates`.\"\"\"

import json
import sys

asked = json.load(sys.stdin)
count = asked["state"].get("count", 0) + 1
greeting = f"Hello, {asked['payload'].get('name', 'world')}, time number {count}"
json.dump({"status": "ok", "result": greeting, "state_updates": {"count": count}}, sys.stdout)
"""


@click.command(name="init")
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@answering
def command(directory: Path) -> Answers:
    """Write a starter everwhen.yaml and a sample plugin into DIRECTORY. Existing files are never overwritten."""
    plugin = directory / "plugins" / "hello"
    files = {
        directory / "everwhen.yaml": FILE.format(name=_name(directory), timezone=_timezone()),
        plugin / "manifest.yaml": MANIFEST,
        plugin / "hello.py": PLUGIN,
    }
    taken = [path for path in files if path.exists()]
    if taken:
        raise click.ClickException(f"{taken[0]} exists already; nothing was written")
    try:
        plugin.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        (plugin / "hello.py").chmod(0o755)
    except OSError as error:
        raise click.ClickException(
            f"{directory} cannot be written to: {error.strerror}; name another directory"
        ) from error
    where = "" if directory == Path() else f"cd {directory} && "
    following = f"{where}everwhen up"
    yield {"directory": str(directory), "files": [str(path) for path in files], "next": following}
    for path in files:
        echo(f"wrote {path}")
    echo(err=True)
    secho(f"next: {following}", err=True, bold=True)


def _timezone() -> str:
    """Return this machine's zone, by its name: a file that moves to another machine keeps its times."""
    try:
        return local_zone_name()
    except TimetableError as error:
        return f"UTC  # {error}"


def _name(directory: Path) -> str:
    """Derive a valid name of the service from the name of the directory."""
    kept = "".join(
        c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in real_path(directory).name
    )
    return kept.strip("-_") or "everwhen"
