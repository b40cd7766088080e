"""Configurations from texts, read as this machine would at a fixed time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from everwhen.config.problems import Report
from everwhen.config.read import Configuration, Host, examine, read_configuration
from everwhen.wiring import plugins_in

SAMPLE = Path(__file__).parent / "sample"
NOW = 1_767_571_200_000_000  # Monday 2026-01-05T00:00:00Z


def host(environ: Mapping[str, str] | None = None) -> Host:
    return Host(
        environ or {}, lambda: "Europe/Berlin", NOW, lambda _directories: plugins_in([SAMPLE / "plugins"])
    )


def write(folder: Path, text: str, name: str = "everwhen.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Configuration:
    return read_configuration(write(folder, text), host(environ))


def mistakes(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """What is said about a file, with its folder left out."""
    report = Report()
    examine(write(folder, text), host(environ), report)
    return [str(problem).replace(f"{folder}/", "") for problem in report.errors]
