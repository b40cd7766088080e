"""From `everwhen.yaml` to a configuration that is valid as a whole, or to everything that is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from everwhen.config.doors.admission import Admission
from everwhen.config.doors.general import read_schedules
from everwhen.config.doors.quiet_hours import read_quiet_hours
from everwhen.config.files import File, Stamp, directories_of, read_files
from everwhen.config.kinds import Node
from everwhen.config.problems import Problem, Report
from everwhen.config.settings import Settings, service_words, settings_of
from everwhen.model.declared import Declarations

DOORS = {"quiet_hours": read_quiet_hours, "schedules": read_schedules}


@dataclass(frozen=True, slots=True)
class Host:
    """What a configuration is read against: the environment, the zone and the time of this machine."""

    environ: Mapping[str, str]
    local_zone: Callable[[], str]
    now: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the files say."""

    settings: Settings = field(default_factory=Settings)
    declared: Declarations = field(default_factory=Declarations)
    files: tuple[File, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def stamps(self) -> dict[Path, Stamp | None]:
        """Which content of each file was read."""
        return {file.path: file.stamp for file in self.files}

    @property
    def directories(self) -> list[Path]:
        """Where its files are, or may come to be."""
        return directories_of(self.files[0])


def read_configuration(path: Path, host: Host) -> Configuration:
    """The configuration of a file; ConfigError that names every mistake in it with file and line."""
    report = Report()
    configuration = examine(path, host, report)
    report.refuse()
    return configuration


def examine(path: Path, host: Host, report: Report) -> Configuration:
    """As much of the configuration as is valid; every mistake is in the report."""
    files = read_files(path, host.environ, report)
    settings = _settings(files[0].node, host, report)
    admission = Admission(report, host.now, settings.timezone, host.local_zone, settings.misfire_grace)
    for section, read in DOORS.items():
        for node in _sections(files, section):
            read(node, admission)
    declared = Declarations(
        tuple(admission.admitted.values()), tuple(admission.policies.values()), _digest(files)
    )
    return Configuration(settings, declared, tuple(files), tuple(report.warnings))


def _settings(main: Node, host: Host, report: Report) -> Settings:
    """The settings, as far as they are sound."""
    (section,) = _sections_of(main, "service") or [Node(main.document, ("service",), None, report)]
    return settings_of(service_words(section, host.environ), local_zone=host.local_zone)


def _sections(files: list[File], section: str) -> list[Node]:
    return [node for file in files for node in _sections_of(file.node, section)]


def _sections_of(node: Node, section: str) -> list[Node]:
    return [child for key, child in node.entries() if key == section]


def _digest(files: list[File]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(repr(file.written.root).encode(errors="surrogatepass"))
    return whole.hexdigest()[:16]
