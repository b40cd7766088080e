"""From `everwhen.yaml` to a configuration that is valid as a whole, or to a report of all that is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.files import File, Stamp, directories_of, read_files, stamp_of, stamps_now
from everwhen.config.problems import Problem, Report
from everwhen.config.schema import API
from everwhen.config.sections.collector import Fields, NoPlugins, Rules, ScheduleCollector
from everwhen.config.sections.general import read_schedules
from everwhen.config.sections.groups import read_agents, read_plugins, read_workflows
from everwhen.config.sections.notify import read_notify
from everwhen.config.sections.policies import read_budgets, read_quiet_hours, warn_of_idle_budgets
from everwhen.config.settings import API_PREFIX, Settings, service_fields, settings_of, twins
from everwhen.config.show import section_entries
from everwhen.errors import ConfigError
from everwhen.model.declare import Declarations, Declared
from everwhen.model.group import Workflow
from everwhen.model.plugin import Plugins
from everwhen.model.target_kinds import KINDS

# Groups before the schedules that name them, and budgets before the schedules that they limit.
_READERS = {
    "quiet_hours": read_quiet_hours,
    "budgets": read_budgets,
    "workflows": read_workflows,
    "plugins": read_plugins,
    "agents": read_agents,
    "schedules": read_schedules,
    "notify": read_notify,
}
_OTHERS = ("api", "messages", "notify", "budgets")


@dataclass(frozen=True, slots=True)
class Host:
    """The environment, the zone and the time of the machine on which a configuration is read."""

    environ: Mapping[str, str]
    local_zone: Callable[[], str]
    now: int
    plugins_in: Callable[[list[Path]], Plugins] | None = None
    python_fault: Callable[[str], str | None] | None = None  # why a function cannot be loaded

    def plugins(self, directories: Iterable[Path]) -> Plugins:
        return NoPlugins() if self.plugins_in is None else self.plugins_in(list(directories))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of the files."""

    settings: Settings = field(default_factory=Settings)
    declared: Declarations = field(default_factory=Declarations)
    files: tuple[File, ...] = ()
    warnings: tuple[Problem, ...] = ()
    plugin_dirs: tuple[Path, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    groups: Mapping[tuple[str, str], Fields] = field(default_factory=dict)  # by kind and name
    # The fields of api, messages, notify and budgets.
    sections: Mapping[str, Any] = field(default_factory=dict)

    rules: tuple[object, ...] = ()
    # Whether targets submitted over REST may reach addresses that are not public.
    allows_private_urls: bool = False

    @property
    def stamps(self) -> dict[Path, Stamp | None]:
        """Return the stamp of each file at the time it was read."""
        return {file.path: file.stamp for file in self.files}

    @property
    def stamps_now(self) -> dict[Path, Stamp | None]:
        """Return the current stamp of each file, including files that are new or gone."""
        return stamps_now(self.files[0])

    @property
    def directories(self) -> list[Path]:
        """Return the directories that contain its files, or may later."""
        return directories_of(self.files[0])


def read_configuration(path: Path, host: Host, last: Configuration | None = None) -> Configuration:
    """Return the configuration of a file; raise ConfigError that names every mistake with file and line.

    `last` is the previous valid configuration: a reload changes one of thousands of schedules, and the others need
    not be checked again.
    """
    report = Report()
    configuration = examine(path, host, report, last)
    report.refuse()
    return configuration


def examine_service(path: Path, host: Host, report: Report) -> tuple[Settings, Mapping[str, Any] | None]:
    """Return the settings of the service and the valid keys of the `api` section; no schedule is read."""
    files = read_files(path, host.environ, report)
    return _settings(files[0].node, host, report), _merged(files, "api")


def examine(path: Path, host: Host, report: Report, last: Configuration | None = None) -> Configuration:
    """Return as much of the configuration as is valid; every mistake is in the report."""
    remembered = memory_of(last) if last is not None else {}
    report.trusted = {name: fields for name, (fields, _) in remembered.items()}
    files = read_files(path, host.environ, report, last.files if last is not None else ())
    settings = _settings(files[0].node, host, report)
    directories = _plugin_dirs(files)
    rules = Rules(
        now=host.now,
        local_zone=host.local_zone,
        timezone=settings.timezone,
        misfire_grace=settings.misfire_grace,
        dispatch=settings.dispatch,
        plugins=host.plugins(directories),
        plugin_dirs=", ".join(map(str, directories)),
        python_fault=host.python_fault,
    )
    collector = ScheduleCollector(report, rules)
    for section, read in _READERS.items():
        if section == "schedules" and last is not None and _rules(settings, collector) == last.rules:
            collector.remembered = {name: declared for name, (_, declared) in remembered.items()}
        for node in _sections(files, section):
            read(node, collector)
    declared = Declarations(
        tuple(collector.collected.values()),
        tuple(collector.policies.values()),
        _digest(files),
        sections=section_entries(files),
    )
    for node in _sections(files, "budgets"):
        warn_of_idle_budgets(node, collector)
    return Configuration(
        settings,
        declared=declared,
        files=tuple(files),
        warnings=tuple(report.warnings),
        plugin_dirs=tuple(directories),
        workflows=tuple(collector.workflows.values()),
        groups=collector.groups,
        sections={section: _merged(files, section) for section in _OTHERS},
        rules=_rules(settings, collector),
        allows_private_urls=_allows_private_urls(_merged(files, "api"), host.environ),
    )


def _rules(settings: Settings, collector: ScheduleCollector) -> tuple[object, ...]:
    """Return what a schedule without a group is checked against, besides its own fields."""
    return (settings, dict(collector.policies), dict(collector.budgets))


def _settings(main: DocumentNode, host: Host, report: Report) -> Settings:
    (section,) = _sections_of(main, "service") or [DocumentNode(main.document, ("service",), None, report)]
    return settings_of(service_fields(section, host.environ), local_zone=host.local_zone)


def _allows_private_urls(fields: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    said = {**fields, **twins(API, API_PREFIX, environ, Report())}  # what is wrong there, the API reports
    return said.get("allow_private_urls") is True


def _plugin_dirs(files: list[File]) -> list[Path]:
    """Return the directories, each relative to the file that names it; by default `plugins` next to the main file."""
    found = [
        file.path.parent / directory
        for file in files
        for node in _sections_of(file.node, "plugin_dirs")
        for directory in (node.value if node.is_sound else ())
    ]
    return found or [files[0].path.parent / "plugins"]


def _merged(files: list[File], section: str) -> Any:
    """Return the content of a section of all files: lists concatenated, mappings merged."""
    values = [node.value for node in _sections(files, section) if node.is_sound]
    if values and isinstance(values[0], list):
        return [item for value in values for item in value]
    merged: dict[str, Any] = {}
    for value in values:
        for key, item in value.items():
            merged[key] = [*merged[key], *item] if isinstance(merged.get(key), list) else item
    return merged


def _sections(files: list[File], section: str) -> list[DocumentNode]:
    return [node for file in files for node in _sections_of(file.node, section)]


def _sections_of(node: DocumentNode, section: str) -> list[DocumentNode]:
    return [child for key, child in node.entries() if key == section]


def _digest(files: list[File]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(repr(file.written.root).encode(errors="surrogatepass"))
    return whole.hexdigest()[:16]


# Schedules that need not be checked again when a file is read again, because their fields are the same.
#
# Only those whose result depends on nothing but their fields and the rules that the reader compares. Excluded
# are those that depend on the current time, on a manifest or a module, or on a group.


_CHANGEABLE = frozenset(("at", "after", "start_at", "end_at"))
_STEADY = frozenset(kind.name for kind in KINDS.values() if kind.is_steady)


def memory_of(last: Configuration) -> dict[str, tuple[dict[str, Any], Declared]]:
    """Return the fields and the declaration of each schedule that may be reused, by id."""
    declared = {one.schedule_id: one for one in last.declared.schedules if one.group is None}
    found: dict[str, tuple[dict[str, Any], Declared]] = {}
    for file in last.files:
        root = file.node.value
        for fields in (root.get("schedules") or ()) if isinstance(root, dict) else ():
            name = fields.get("id")
            if name in declared and _is_steady(fields):
                found[name] = (fields, declared[name])
    return found


def _is_steady(fields: dict[str, Any]) -> bool:
    run = fields.get("run") or {}
    return _CHANGEABLE.isdisjoint(fields) and not _STEADY.isdisjoint(run)


# The workflows of the file in force.


class FileWorkflows:
    """Workflows by id, as targets look them up.

    A job may be ahead of this node: another process has loaded a file with a new workflow, and its first job is here
    already. So for an unknown workflow the file is read again if it has changed.
    """

    def __init__(self, current: Configuration, read: Callable[[], Configuration] | None) -> None:
        self._read = read
        self.take(current)

    def take(self, configuration: Configuration) -> None:
        self._workflows = {workflow.workflow_id: workflow for workflow in configuration.workflows}
        self._read_from = configuration
        self._tried = _stamps(configuration)

    def find(self, workflow_id: str) -> Workflow | None:
        found = self._workflows.get(workflow_id)
        stamps = _stamps(self._read_from) if found is None else self._tried
        if self._read is not None and stamps != self._tried:
            self._tried = stamps
            with suppress(ConfigError):  # the reload reports it
                self.take(self._read())
            found = self._workflows.get(workflow_id)
        return found


def _stamps(configuration: Configuration) -> dict[Path, Stamp | None]:
    """Return the stamp of each file that was read, and of each directory in which another may appear."""
    if not configuration.files:
        return {}
    places = [*configuration.stamps, *configuration.directories]
    return {path: stamp_of(path) for path in places}
