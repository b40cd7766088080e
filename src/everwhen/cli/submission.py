"""Request bodies from the command line: keys, a JSON file, or both."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

setting_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set any key, such as jitter=30s; write lists as JSON.",
)
file_option = click.option(
    "--file",
    "source",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Read a JSON object from this file; - reads stdin.",
)


def submission(settings: tuple[str, ...], source: str | None) -> dict[str, Any]:
    """Return the given keys and values; refuse a call without any."""
    fields = {} if source is None else _object(source)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{setting}: write it like jitter=30s", param_hint="--set")
        fields[key] = _value(key, value)
    if not fields:
        raise click.UsageError("no key is given; name keys with --set, or a --file")
    return fields


def _object(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        fields = json.loads(text)
    except OSError as error:
        raise click.BadParameter(f"{source}: {error.strerror}", param_hint="--file") from None
    except ValueError as error:
        raise click.BadParameter(f"{source} is not valid JSON: {error}", param_hint="--file") from None
    if not isinstance(fields, dict):
        raise click.BadParameter(f"{source} does not hold a JSON object", param_hint="--file")
    return fields


def _value(key: str, text: str) -> Any:
    """Parse an object or a list as JSON, anything else as a plain value of the file: `false`, `3`, `30s`."""
    if not text.startswith(("{", "[")):
        from everwhen.config.yaml_reader import core_value  # commands that only read need no YAML

        return core_value(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{key}: is not valid JSON: {error}", param_hint="--set") from None
