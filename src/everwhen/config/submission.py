"""One schedule that comes by itself, over REST or from Python: judged by the same checks as one of a file.

Everything that is wrong with it is said at once, each with the path of the submitter's own word. Who may submit what
(roles, code targets, private addresses) is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from everwhen.config.document import Block
from everwhen.config.doors.admission import Admission, NoPlugins, Words
from everwhen.config.doors.agents import read_agents
from everwhen.config.doors.general import group_in, read_schedule
from everwhen.config.environment import references_in
from everwhen.config.kinds import NAME, NO_NAME
from everwhen.config.node import Node
from everwhen.config.plain import plain_document
from everwhen.config.problems import MOST_SUBMITTED, Place, Problem, Report
from everwhen.config.read import Configuration, Host
from everwhen.config.scalars import spelled
from everwhen.config.schedule_keys import TRIGGER
from everwhen.config.schema import AGENTS
from everwhen.config.spelling import settled_words
from everwhen.config.submission_keys import SUBMISSION, Translated, translate
from everwhen.errors import SubmissionError, TimetableError, shown
from everwhen.model.declared import Declared
from everwhen.model.fields import PROTECTIONS, Shape
from everwhen.model.group import RESERVED, is_longer, tenant_of
from everwhen.model.instants import SECOND
from everwhen.model.plugin_schedule import DEFAULT_COMMAND
from everwhen.model.schedule import Definition
from everwhen.ports.plugins import Plugins
from everwhen.ports.workflows import Workflow
from everwhen.timetable.trigger import Every, EveryMonth, Once

_SAID = object()
# What a schedule over REST had before protection followed its target, unless something else was said.
_UNPROTECTED = {
    "max_outstanding": 0,
    "max_concurrent": 0,
    "circuit_breaker": False,
    "timeout": "10m",
    "on_lost": "rerun",
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a submission is judged by beside its own words."""

    now: int
    local_zone: Callable[[], str]
    timezone: str = "UTC"
    misfire_grace: str | int = "auto"
    dispatch: str = "local"
    quiet_hours: frozenset[str] = frozenset()  # the ids of the policies that there are
    groups: Mapping[tuple[str, str], Words] = field(default_factory=dict)  # by kind and name
    workflows: Mapping[str, Workflow] = field(default_factory=dict)
    budgets: Mapping[str, Words] = field(default_factory=dict)
    plugins: Plugins = field(default_factory=NoPlugins)
    plugin_dirs: str = "plugins"
    python_fault: Callable[[str], str | None] | None = None
    may_refer: bool = True  # to the environment of the workers, as in ${NAME}
    owner: str | None = None  # of whoever submits it: what names no owner is theirs


def surroundings_of(
    configuration: Configuration, host: Host, quiet_hours: Iterable[str], *, may_refer: bool = True
) -> Surroundings:
    """What the configuration in force says; `quiet_hours` are the ids of all policies, of those over REST as well."""
    return Surroundings(
        now=host.now,
        local_zone=host.local_zone,
        timezone=configuration.settings.timezone,
        misfire_grace=configuration.settings.misfire_grace,
        dispatch=configuration.settings.dispatch,
        quiet_hours=frozenset(quiet_hours),
        groups=configuration.groups,
        workflows={workflow.workflow_id: workflow for workflow in configuration.workflows},
        budgets=configuration.sections.get("budgets") or {},
        plugins=host.plugins_in(list(configuration.plugin_dirs)) if host.plugins_in else NoPlugins(),
        plugin_dirs=", ".join(map(str, configuration.plugin_dirs)),
        python_fault=host.python_fault,
        may_refer=may_refer,
    )


def read_submission(
    words: Mapping[str, Any], schedule_id: str, surroundings: Surroundings, *, may_be_past: bool = False
) -> Declared:
    """The declaration that the words of one schedule say; SubmissionError with every problem and its path.

    `words` are plain JSON data in the words of the table in the contract. An `at` or `end_at` that is past is refused
    unless `may_be_past`: an edit may leave alone what is over.
    """
    if not NAME.fullmatch(schedule_id):
        raise TimetableError(f'id "{shown(schedule_id)}" {NO_NAME}', key="id", value=schedule_id)
    submitted = _submitted(words, surroundings)
    before = len(submitted.report.found)
    return _judged(translate(submitted), before, schedule_id, surroundings, may_be_past=may_be_past)


def read_agent_submission(
    agents: Mapping[str, Mapping[str, Any]], surroundings: Surroundings
) -> list[Declared]:
    """The schedules of agents that come by themselves, from Python; SubmissionError as above."""
    report = Report(most=MOST_SUBMITTED)
    document = plain_document({"agents": agents}, report)
    node = Node(document, ("agents",), document.root["agents"], report)
    AGENTS.check(node)
    admission = _admission(surroundings, report, may_be_past=True)
    read_agents(node, admission)
    if report.errors:
        raise SubmissionError(_said(report.found, {}))
    return list(admission.admitted.values())


def read_change(
    changes: Mapping[str, Any], schedule_id: str, current: Definition, surroundings: Surroundings
) -> Declared:
    """The declaration of a schedule with some of its words changed; SubmissionError as above.

    A word of the trigger replaces the trigger, null clears a word, and what is not named stays as it is; so does the
    instant of an `after`. Whether an instant that is past may be left alone is decided by the edit itself.
    """
    submitted = _submitted(changes, surroundings)
    before = len(submitted.report.found)
    stored = settled_words(current)
    translated = translate(submitted, beside=stored)
    block = translated.node.value
    if is_new_trigger := any(key in block for key in TRIGGER):
        others = TRIGGER if isinstance(current.trigger, Every | EveryMonth) else (*TRIGGER, "interval_from")
        stored = {key: value for key, value in stored.items() if key not in others}
    if block.get("run") is not None:
        stored = _without_defaults(stored, schedule_id, current, surroundings)
    _move_retries(changes, current, block)
    stored = _without_reserved(stored, block, current, surroundings)
    kept = plain_document(stored, submitted.report).root
    block.update({key: value for key, value in kept.items() if key not in block})
    declared = _judged(translated, before, schedule_id, surroundings, may_be_past=True)
    if is_new_trigger or not isinstance(current.trigger, Once) or current.trigger.kind != "after":
        return declared
    return replace(declared, definition=replace(declared.definition, trigger=current.trigger))


def with_protections(schedule_id: str, stored: Definition, surroundings: Surroundings) -> Definition | None:
    """A stored definition with the protections of what it runs, where it says none of its own.

    None when it cannot be read again: what it runs is not in this configuration. When it fires stays as it is.
    """
    words = settled_words(stored)
    said = {key: value for key, value in words.items() if _UNPROTECTED.get(key, _SAID) != value}
    try:
        declared = _read_again(said, schedule_id, stored, surroundings)
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
    words: Words, schedule_id: str, current: Definition, surroundings: Surroundings
) -> Words:
    """The words of a schedule that is to run something else: protections that it has by default do not stay."""
    bare = {key: value for key, value in words.items() if key not in PROTECTIONS}
    try:
        by_default = settled_words(_read_again(bare, schedule_id, current, surroundings).definition)
    except SubmissionError:  # what it ran is gone, and nobody knows what was said
        return bare
    return {key: value for key, value in words.items() if key in bare or value != by_default.get(key)}


def _read_again(words: Words, schedule_id: str, current: Definition, surroundings: Surroundings) -> Declared:
    report = Report()
    document = plain_document(_without_reserved(words, Block(), current, surroundings), report)
    node = Node(document, (), document.root, report)
    return _judged(Translated(node, {}, "general"), 0, schedule_id, surroundings, may_be_past=True)


def _submitted(words: Mapping[str, Any], surroundings: Surroundings) -> Node:
    """The words in their places, each looked at by itself."""
    if not isinstance(words, Mapping):
        raise SubmissionError([("", f"a schedule is an object, not {spelled(words)}")])
    report = Report(most=MOST_SUBMITTED)
    document = plain_document(words, report)
    submitted = Node(document, (), document.root, report)
    SUBMISSION.check(submitted)
    if not surroundings.may_refer:
        _refuse_references(submitted)
    return submitted


def _judged(
    translated: Translated, before: int, schedule_id: str, surroundings: Surroundings, *, may_be_past: bool
) -> Declared:
    """The words looked at as a whole; the problems that were found before name the submitter's words already."""
    report = translated.node.report
    admission = _admission(surroundings, report, may_be_past=may_be_past, shape=translated.shape)
    if translated.node.value.get("run") is None:
        translated.node.complain("run is required")
    read_schedule(translated.node, schedule_id, admission)
    if report.errors:
        raise SubmissionError(
            _said(report.found[:before], {}) | _said(report.found[before:], translated.spelled)
        )
    return admission.admitted[schedule_id]


def _without_reserved(stored: Words, block: Block, current: Definition, surroundings: Surroundings) -> Words:
    """The stored words of a tenant's schedule without those that its shared group says for all (X9)."""
    owner = block.get("owner") or stored.get("owner") or surroundings.owner
    run = block.get("run") or stored["run"]
    key = group_in(run) if isinstance(run, dict) else None
    group = None if key is None else surroundings.groups.get(key)
    if key is None or group is None or tenant_of(group, owner) is None:
        return stored
    reserved = set(RESERVED)
    if is_longer(current.timeout, key[0], group, run[key[0]].get("command") or DEFAULT_COMMAND):
        reserved.add("timeout")
    return {word: value for word, value in stored.items() if word not in reserved}


def _move_retries(changes: Mapping[str, Any], current: Definition, block: Block) -> None:
    """Pipelit's retries wait for one interval: they go along with it."""
    is_pipelits = (
        isinstance(current.trigger, Every) and current.retry_delay == current.trigger.seconds * SECOND
    )
    if is_pipelits and "interval_seconds" in changes and "every" in block:
        block.setdefault("retry_delay", block["every"])


def _said(problems: list[Problem], spelled: Mapping[str, str]) -> set[tuple[str, str]]:
    errors = [problem for problem in problems if problem.severity == "error"]
    return {(as_submitted(problem.path, spelled), problem.message) for problem in errors}


def _admission(
    surroundings: Surroundings, report: Report, *, may_be_past: bool, shape: Shape = "general"
) -> Admission:
    return Admission(
        report,
        surroundings.now,
        surroundings.timezone,
        surroundings.local_zone,
        surroundings.misfire_grace,
        surroundings.dispatch,
        shape=shape,
        is_file=False,
        owner=surroundings.owner,
        may_be_past=may_be_past,
        policy_places=dict.fromkeys(surroundings.quiet_hours, Place("", 0)),
        budgets=dict(surroundings.budgets),
        plugins=surroundings.plugins,
        plugin_dirs=surroundings.plugin_dirs,
        python_fault=surroundings.python_fault,
        groups=dict(surroundings.groups),
        workflows=dict(surroundings.workflows),
    )


def _refuse_references(submitted: Node) -> None:
    """What a worker resolves is the worker's: whoever may not see its environment may not send it elsewhere."""
    for path in references_in(submitted.value.get("run"), ("run",)) + references_in(
        submitted.value.get("ping"), ("ping",)
    ):
        submitted.complain(
            "refers to the environment, which is for the configuration file and for callers that may run code",
            *path,
        )


def as_submitted(path: str, spelled: Mapping[str, str]) -> str:
    """A path in the words that the submitter used.

    >>> as_submitted("run.workflow.id", {"run": "workflow_id", "run.workflow.id": "workflow_id"})
    'workflow_id'
    """
    for key in sorted(spelled, key=len, reverse=True):
        rest = path.removeprefix(key)
        if rest != path and rest[:1] in ("", ".", "["):
            return spelled[key] + rest
    return path
