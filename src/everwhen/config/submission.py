"""One schedule that comes by itself, over REST, from Python or from a test: checked as one of a file is.

All its problems are reported at once, each with the path of the submitter's own key. Who may submit what (roles, code
targets, private addresses) is not checked here. Bodies may have other shapes than a file has: `BodyShapes` says which
keys they have, and translates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from everwhen.config.document import Block, DocumentNode, plain_node
from everwhen.config.files import references_in
from everwhen.config.problems import MOST_SUBMITTED, Problem, Report
from everwhen.config.read import Configuration, Host
from everwhen.config.schema import AGENTS, QUIET_HOURS, SCHEDULE
from everwhen.config.sections.collector import Fields, Rules, ScheduleCollector
from everwhen.config.sections.general import group_in, read_schedule
from everwhen.config.sections.groups import read_agents
from everwhen.config.sections.policies import read_quiet_hours
from everwhen.config.target_fields import RUN
from everwhen.errors import SchedulerError, SubmissionError, TimetableError, shown
from everwhen.model.declare import Declared, timeout_of
from everwhen.model.defaults import PROTECTIONS, Shape
from everwhen.model.fields import FIELDS, TRIGGER_KEYS, Definition, settled_fields
from everwhen.model.group import RESERVED, Workflow, is_longer, tenant_of
from everwhen.model.instants import duration_text
from everwhen.model.kinds import NAME, NO_NAME, Key, MapOf, Record
from everwhen.model.scalars import spelled
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.target_kinds import DEFAULT_COMMAND, Target
from everwhen.model.values import program_of
from everwhen.timetable.trigger import Every, EveryMonth, Once

_NO_DEFAULT = object()
# What a schedule over REST had before protection followed its target, unless something else was said.
_UNPROTECTED = {
    "max_outstanding": 0,
    "max_concurrent": 0,
    "circuit_breaker": False,
    "timeout": "10m",
    "on_lost": "rerun",
}


# What the defaults of the other keys depend on, and what a schedule is called.
_IDENTIFYING = frozenset((*TRIGGER_KEYS, "type", "run", "interval_from", "timezone", "owner", "name"))


class Translated(NamedTuple):
    """A submission in the keys of a file, the submitter's own key for each that was another, and its shape."""

    node: DocumentNode
    spelled: dict[str, str]
    shape: Shape


class BodyShapes(Protocol):
    """The keys that a submission may have, and their translation to those of a file."""

    @property
    def keys(self) -> Record: ...

    def parse_texts(
        self, fields: Mapping[str, Any], existing: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Return a submission with the values that it writes as JSON text, before its keys are checked."""
        ...

    def translate(self, submitted: DocumentNode, existing: Mapping[str, Any] | None = None) -> Translated:
        """Translate the keys of a submission, null where one is cleared.

        A new schedule has the defaults of its shape; a change is read with the `existing` keys of the schedule.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlainBodies:
    """Bodies with the keys of a file."""

    keys: Record

    def parse_texts(
        self, fields: Mapping[str, Any], existing: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        return fields

    def translate(self, submitted: DocumentNode, existing: Mapping[str, Any] | None = None) -> Translated:
        return Translated(submitted, {}, "general")


GENERAL = {name: key for name, key in SCHEDULE.keys.items() if name != "id"} | {
    "run": Key(RUN, FIELDS["run"].about)
}
GENERAL_BODIES = PlainBodies(Record(GENERAL))


@dataclass(frozen=True, slots=True)
class SubmissionRules(Rules):
    """What a submission is checked by: also the groups, workflows and budgets of the configuration in force."""

    groups: Mapping[tuple[str, str], Fields] = field(default_factory=dict)  # by kind and name
    workflows: dict[str, Workflow] = field(default_factory=dict)
    budgets: dict[str, Fields] = field(default_factory=dict)
    may_refer: bool = True  # to the environment of the workers, as in ${NAME}
    max_timeout: int | None = None  # the longest that the submitter may set, in microseconds
    bodies: BodyShapes = GENERAL_BODIES


def rules_of(
    configuration: Configuration,
    host: Host,
    quiet_hours: Iterable[str],
    *,
    may_refer: bool = True,
    bodies: BodyShapes = GENERAL_BODIES,
) -> SubmissionRules:
    """Return the rules of the configuration in force; `quiet_hours` are the ids of all policies, also of REST."""
    return SubmissionRules(
        now=host.now,
        local_zone=host.local_zone,
        timezone=configuration.settings.timezone,
        misfire_grace=configuration.settings.misfire_grace,
        dispatch=configuration.settings.dispatch,
        quiet_hours=frozenset(quiet_hours),
        groups=configuration.groups,
        workflows={workflow.workflow_id: workflow for workflow in configuration.workflows},
        budgets=configuration.sections.get("budgets") or {},
        plugins=host.plugins(configuration.plugin_dirs),
        plugin_dirs=", ".join(map(str, configuration.plugin_dirs)),
        python_fault=host.python_fault,
        may_refer=may_refer,
        bodies=bodies,
    )


def read_submission(
    fields: Mapping[str, Any],
    schedule_id: str,
    rules: SubmissionRules,
    *,
    may_be_past: bool = False,
    target: Target | None = None,
) -> Declared:
    """Return the declaration of one schedule; raise SubmissionError with every problem and its path.

    `fields` are plain JSON data with the keys of the contract. An `at` or `end_at` that is past is refused
    unless `may_be_past`: an edit may leave alone what is over. `target` is run where the keys have no `run`.
    """
    if not NAME.fullmatch(schedule_id):
        raise TimetableError(f'id "{shown(schedule_id)}" {NO_NAME}', key="id", value=schedule_id)
    return read_new(fields, schedule_id, rules, may_be_past=may_be_past, target=target)


def read_new(
    fields: Mapping[str, Any],
    schedule_id: str,
    rules: SubmissionRules,
    *,
    may_be_past: bool = False,
    target: Target | None = None,
    group: str | None = None,
) -> Declared:
    """Read a submission as `read_submission` does, under any id; `group` is that of the given `target`."""
    submitted = _submitted(fields, rules)
    before = len(submitted.report.found)
    translated = rules.bodies.translate(submitted)
    _refuse_long_timeout(translated.node, rules)
    return _judged(
        translated, before, schedule_id, rules, may_be_past=may_be_past, target=target, group=group
    )


def read_agent_submission(agents: Mapping[str, Mapping[str, Any]], rules: SubmissionRules) -> list[Declared]:
    """Return schedules of agents that come by themselves, from Python; raise SubmissionError as above."""
    report = Report(most=MOST_SUBMITTED)
    node = plain_node({"agents": agents}, report)["agents"]
    AGENTS.check(node)
    collector = _collector(rules, report, may_be_past=True)
    read_agents(node, collector)
    if report.errors:
        raise SubmissionError(_faults_in(report.found, {}))
    return list(collector.collected.values())


def read_change(
    changes: Mapping[str, Any], schedule_id: str, current: Definition, rules: SubmissionRules
) -> Declared:
    """Return the declaration of a schedule with some of its keys changed; raise SubmissionError as above.

    A key of the trigger replaces the trigger, null clears a key, and what is not named stays as it is; so does the
    instant of an `after`. Whether an instant that is past may be left alone is decided by the edit itself.
    """
    stored = settled_fields(current)
    submitted = _submitted(changes, rules, stored)
    before = len(submitted.report.found)
    translated = rules.bodies.translate(submitted, stored)
    block = translated.node.value
    _refuse_long_timeout(translated.node, rules, current)
    if is_new_trigger := any(key in block for key in (*TRIGGER_KEYS, "type")):
        is_interval = isinstance(current.trigger, Every | EveryMonth)
        others = (*TRIGGER_KEYS, "type", *(() if is_interval else ("interval_from",)))
        if block.get("type") != "webhook":
            others += ("secret", "signature")
        stored = {key: value for key, value in stored.items() if key not in others}
    if block.get("run") is not None:
        stored = _without_defaults(stored, schedule_id, current, rules)
    stored = _without_reserved(stored, block, current, rules)
    target = None
    if current.target.kind == "python" and block.get("run") is None:
        target = current.target  # a function of a program cannot be named by keys
        del stored["run"]
    kept = plain_node(stored, submitted.report).value
    block.update({key: value for key, value in kept.items() if key not in block})
    if program := program_of(current.queue):
        rules = replace(rules, bound_to=program)
    declared = _judged(translated, before, schedule_id, rules, may_be_past=True, target=target)
    if is_new_trigger or not isinstance(current.trigger, Once) or current.trigger.kind != "after":
        return declared
    return replace(declared, definition=replace(declared.definition, trigger=current.trigger))


def select_own_fields(schedule_id: str, stored: Definition, rules: SubmissionRules) -> Fields:
    """Return the keys that make the same schedule again: all but those that are what they would be by default.

    What a shared group sets for all its users is left out, because a submission with it is refused.
    """
    rules = replace(rules, python_fault=None)  # to look for a function is to import its module
    fields = _without_reserved(settled_fields(stored), Block(), stored, rules)
    bare = {key: value for key, value in fields.items() if key in _IDENTIFYING}
    try:
        by_default = settled_fields(_read_again(bare, schedule_id, stored, rules).definition)
    except SubmissionError:  # what it runs is gone, and nobody knows what would be set
        return fields
    return {key: value for key, value in fields.items() if key in bare or value != by_default.get(key)}


def with_protections(schedule_id: str, stored: Definition, rules: SubmissionRules) -> Definition | None:
    """Return a stored definition with the protections of what it runs, where it has none of its own.

    None when it cannot be read again: what it runs is not in this configuration. When it fires stays as it is.
    """
    fields = settled_fields(stored)
    given = {key: value for key, value in fields.items() if _UNPROTECTED.get(key, _NO_DEFAULT) != value}
    try:
        declared = _read_again(given, schedule_id, stored, rules)
    except SubmissionError:
        return None
    found = declared.definition
    return replace(
        stored,
        guard=found.guard,
        capacity=found.capacity,
        breaker=found.breaker,
        timeout=found.timeout,
        on_lost=found.on_lost,
    )


def _without_defaults(
    fields: Fields, schedule_id: str, current: Definition, rules: SubmissionRules
) -> Fields:
    """Return the keys of a schedule that is to run something else, without protections that it has by default."""
    bare = {key: value for key, value in fields.items() if key not in PROTECTIONS}
    try:
        by_default = settled_fields(_read_again(bare, schedule_id, current, rules).definition)
    except SubmissionError:  # what it ran is gone, and nobody knows what was said
        return bare
    return {key: value for key, value in fields.items() if key in bare or value != by_default.get(key)}


def _read_again(fields: Fields, schedule_id: str, current: Definition, rules: SubmissionRules) -> Declared:
    node = plain_node(_without_reserved(fields, Block(), current, rules), Report())
    return _judged(Translated(node, {}, "general"), 0, schedule_id, rules, may_be_past=True)


def _submitted(
    fields: Mapping[str, Any], rules: SubmissionRules, existing: Mapping[str, Any] | None = None
) -> DocumentNode:
    """Return the keys in their places, each checked by itself."""
    if not isinstance(fields, Mapping):
        raise SubmissionError([("", f"a schedule is an object, not {spelled(fields)}")])
    submitted = plain_node(rules.bodies.parse_texts(fields, existing), Report(most=MOST_SUBMITTED))
    rules.bodies.keys.check(submitted)
    if not rules.may_refer:
        _refuse_references(submitted)
    return submitted


def _judged(
    translated: Translated,
    before: int,
    schedule_id: str,
    rules: SubmissionRules,
    *,
    may_be_past: bool,
    target: Target | None = None,
    group: str | None = None,
) -> Declared:
    """Check the keys as a whole; the problems that were found before name the submitter's keys already."""
    report = translated.node.report
    collector = _collector(rules, report, may_be_past=may_be_past, shape=translated.shape)
    if target is None and translated.node.value.get("run") is None:
        translated.node.complain("run is required")
    read_schedule(translated.node, schedule_id, collector, target, group)
    if report.has_errors:
        raise SubmissionError(
            _faults_in(report.found[:before], {}) | _faults_in(report.found[before:], translated.spelled)
        )
    return collector.collected[schedule_id]


def _without_reserved(stored: Fields, block: Block, current: Definition, rules: SubmissionRules) -> Fields:
    """Return the stored keys of a tenant's schedule without those that its shared group sets for all."""
    owner = block.get("owner") or stored.get("owner") or rules.owner
    run = block.get("run") or stored["run"]
    key = group_in(run) if isinstance(run, dict) else None
    group = None if key is None else rules.groups.get(key)
    if key is None or group is None or tenant_of(group, owner) is None:
        return stored
    reserved = set(RESERVED)
    if is_longer(current.timeout, key[0], group, run[key[0]].get("command") or DEFAULT_COMMAND):
        reserved.add("timeout")
    return {word: value for word, value in stored.items() if word not in reserved}


def _faults_in(problems: list[Problem], spelled: Mapping[str, str]) -> set[tuple[str, str]]:
    errors = [problem for problem in problems if problem.severity == "error"]
    return {(as_submitted(problem.path, spelled), problem.message) for problem in errors}


def _collector(
    rules: SubmissionRules, report: Report, *, may_be_past: bool, shape: Shape = "general"
) -> ScheduleCollector:
    return ScheduleCollector(
        report,
        rules,
        shape=shape,
        is_file=False,
        may_be_past=may_be_past,
        budgets=rules.budgets,
        groups=dict(rules.groups),
        workflows=rules.workflows,
    )


def _refuse_references(submitted: DocumentNode) -> None:
    """Refuse references to a worker's environment: a submitter who may not see it may not send it to others either."""
    fault = (
        "refers to the environment, which only the configuration file and callers that may run code may do"
    )
    for key in ("run", "ping", "secret"):
        for path in references_in(submitted.value.get(key), (key,)):
            submitted.complain(fault, *path)


def _refuse_long_timeout(
    node: DocumentNode, rules: SubmissionRules, current: Definition | None = None
) -> None:
    """Refuse a timeout beyond the submitter's longest; one that is stored already, or a default, does not count."""
    value = node.value.get("timeout")
    if value is None or rules.max_timeout is None:
        return
    try:
        timeout = timeout_of(value, 0)
    except SchedulerError:  # reported where it is declared
        return
    is_longer = timeout is None or timeout > rules.max_timeout
    if is_longer and (current is None or timeout != current.timeout):
        most = duration_text(rules.max_timeout)
        node.complain(
            f"is longer than {most}, the most that a token with an owner may set (api.max_timeout)", "timeout"
        )


def as_submitted(path: str, spelled: Mapping[str, str]) -> str:
    """Return a path in the fields that the submitter used.

    >>> as_submitted("run.workflow.id", {"run": "workflow_id", "run.workflow.id": "workflow_id"})
    'workflow_id'
    """
    for key in sorted(spelled, key=len, reverse=True):
        rest = path.removeprefix(key)
        if rest != path and rest[:1] in ("", ".", "["):
            return spelled[key] + rest
    return path


# Quiet hours submitted over REST: checked like those of the file; `views.system` shows them.


_POLICIES = MapOf(QUIET_HOURS)


def read_policy(fields: Any, policy_id: str, rules: SubmissionRules) -> QuietHoursPolicy:
    """Return the policy of submitted fields; raise SubmissionError with every problem and its path."""
    if not isinstance(fields, Mapping):
        raise SubmissionError([("", f"quiet hours are an object, not {spelled(fields)}")])
    try:
        return _judged_policy(fields, policy_id, rules)
    except SubmissionError as error:
        found = ((_below(path, policy_id), message) for path, message in error.problems)
        raise SubmissionError(found) from None


def _judged_policy(fields: Mapping[str, Any], policy_id: str, rules: SubmissionRules) -> QuietHoursPolicy:
    report = Report(most=MOST_SUBMITTED)
    node = plain_node({policy_id: fields}, report)
    _POLICIES.check(node)
    collector = ScheduleCollector(report, rules)
    read_quiet_hours(node, collector)
    if report.errors:
        raise SubmissionError((problem.path, problem.message) for problem in report.errors)
    return collector.policies[policy_id]


def _below(path: str, policy_id: str) -> str:
    return path.removeprefix(policy_id).removeprefix(".")
