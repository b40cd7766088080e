"""The collector that all sections share: it checks a schedule as a whole, reserves its id, and accepts or refuses
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.problems import Location, Report
from everwhen.decide.budgets import lacks_max_cost
from everwhen.decide.edit import raise_past
from everwhen.decide.slots import first_slot
from everwhen.errors import SchedulerError, TimetableError, shown
from everwhen.model.declare import Declared, declare
from everwhen.model.defaults import Shape
from everwhen.model.group import Workflow, needs_max_cost
from everwhen.model.plugin import Manifest, Plugin, Plugins
from everwhen.model.queue import RQ_CHAIN, chain_faults
from everwhen.model.scalars import hint
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Target
from everwhen.timetable.trigger import Once, OnRequest

Fields = dict[str, Any]
NOTHING = Target("nothing")  # replaces a target that was reported as wrong
_NO_TRIGGER = "requires one of"
OWNER = "owner:"  # before the name of an owner, in `budgets`


class NoPlugins:
    """No installed plugins."""

    def find(self, name: str) -> Plugin | None:
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a schedule is checked by beside its own keys and the rest of its file."""

    now: int
    local_zone: Callable[[], str]
    timezone: str = "UTC"
    misfire_grace: str | int = "auto"
    dispatch: str = "local"
    quiet_hours: frozenset[str] = frozenset()  # the ids of the policies in the database
    plugins: Plugins = field(default_factory=NoPlugins)
    plugin_dirs: str = "plugins"
    python_fault: Callable[[str], str | None] | None = None
    owner: str | None = None  # the submitter of a single schedule, who owns it unless it names an owner
    bound_to: str | None = None  # the program that adds it, whose processes alone take its jobs


@dataclass(slots=True)
class ScheduleCollector:
    """The schedules accepted so far, and the rules by which new ones are checked."""

    report: Report
    rules: Rules
    shape: Shape = "general"
    is_file: bool = True  # or a single schedule, whose messages reveal less about others
    may_be_past: bool = True  # with a warning, else refused
    policies: dict[str, QuietHoursPolicy] = field(default_factory=dict)
    policy_places: dict[str, Location] = field(default_factory=dict)  # including invalid ones
    budgets: dict[str, Fields] = field(default_factory=dict)
    group_places: dict[str, tuple[Location, str]] = field(default_factory=dict)  # by name, with the kind
    groups: dict[tuple[str, str], Fields] = field(default_factory=dict)  # by kind and name
    manifests: dict[str, Manifest | None] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    collected: dict[str, Declared] = field(default_factory=dict)
    rule_places: dict[str, Location] = field(default_factory=dict)  # of `notify`, by name
    remembered: dict[str, Declared] = field(default_factory=dict)  # of the last reading, under the same rules
    _places: dict[str, Location] = field(default_factory=dict)

    def add(
        self,
        node: DocumentNode,
        schedule_id: str,
        fields: Mapping[str, Any],
        target: Target,
        *,
        group: str | None = None,
        tenant: str | None = None,
        spelled: Mapping[str, str] | None = None,
    ) -> None:
        """Accept a schedule, or report why not.

        The fields are those that are valid one by one. When others are left out the rest is checked all the same, so
        that all problems are reported at once. `spelled` maps a field to the key that the file uses for it.
        """
        was_sound = node.is_sound
        place = node.place
        first = self._places.setdefault(schedule_id, place)
        if first is not place:
            local_id = schedule_id.rpartition(".")[2]
            node.complain(f'duplicate schedule id "{shown(local_id)}", first in {first}')
        try:
            complete = self._completed(fields, group)
            definition = declare(
                schedule_id,
                complete,
                target=target,
                now=self.rules.now,
                timezone=self.rules.timezone,
                group=group,
                tenant=tenant,
                bound_to=self.rules.bound_to,
            )
        except SchedulerError as error:
            if was_sound or not str(error).startswith(_NO_TRIGGER):  # it may have been left out
                _complain(node, error, spelled or {})
            return
        self._refuse_unchainable(node, definition, spelled or {})
        self._refuse_unknown_policy(node, definition)
        self._try_first_slot(node, schedule_id, definition)
        if self.is_file and lacks_max_cost(definition):  # over REST the token may have a limit
            node.complain(needs_max_cost(group or ""), *(["run"] if "run" in node.value else []))
        if node.is_sound:
            self.collected[schedule_id] = Declared(
                schedule_id, complete, target, definition, group, place=str(place)
            )

    def add_again(self, node: DocumentNode) -> bool:
        """Accept a schedule again when neither its fields nor the rules for it have changed since the last reading."""
        schedule_id = node.value.get("id") if isinstance(node.value, dict) else None
        known = self.remembered.get(schedule_id) if isinstance(schedule_id, str) else None
        if known is None or schedule_id in self._places or not self.report.trusts(node.value):
            return False
        place = self._places[known.schedule_id] = node.place
        text = str(place)
        self.collected[known.schedule_id] = known if text == known.place else replace(known, place=text)
        return True

    def _completed(self, fields: Mapping[str, Any], group: str | None) -> Fields:
        """Complete the fields with values from elsewhere: the service's misfire grace, the host's zone, budgets."""
        complete = {key: value for key, value in fields.items() if value is not None}
        complete.setdefault("timezone", self.rules.timezone)
        if complete["timezone"] == "local":
            complete["timezone"] = self.rules.local_zone()
        if complete.get("circuit_breaker") is False:
            del complete["circuit_breaker"]
        for key in ("max_outstanding", "max_concurrent"):
            if complete.get(key) == 0:
                del complete[key]
        if self.rules.misfire_grace != "auto":
            complete.setdefault("misfire_grace", self.rules.misfire_grace)
        owner = complete.get("owner")
        wanted = (group, owner, None if owner is None else f"{OWNER}{owner}")
        names = [name for name in wanted if name is not None and name in self.budgets]
        if names:
            complete["budgets"] = {name: self.budgets[name] for name in dict.fromkeys(names)}
        return complete

    def _refuse_unchainable(
        self, node: DocumentNode, definition: Definition, spelled: Mapping[str, str]
    ) -> None:
        """Report what cannot run without a scheduler when it is loaded, not when it fails to run."""
        for key, fault in chain_faults(definition) if self.rules.dispatch == RQ_CHAIN else ():
            _complain(node, TimetableError(fault, key=key, value=None), spelled)

    def _refuse_unknown_policy(self, node: DocumentNode, definition: Definition) -> None:
        wanted = definition.quiet_hours_id
        if wanted is None or wanted in self.policy_places or wanted in self.rules.quiet_hours:
            return
        known = sorted({*self.policy_places, *self.rules.quiet_hours})
        node.complain(f'there are no quiet hours "{shown(wanted)}"{hint(wanted, known)}', "quiet_hours")

    def _try_first_slot(self, node: DocumentNode, schedule_id: str, definition: Definition) -> None:
        """Check that bounds and one-shots leave a slot to come: a file gets a warning; without `may_be_past` it is an
        error."""
        is_bounded = (definition.start_at, definition.end_at, definition.first_run) != (None, None, None)
        if isinstance(definition.trigger, OnRequest) or not (
            is_bounded or isinstance(definition.trigger, Once)
        ):
            return
        try:
            found = first_slot(Plan(schedule_id, definition, None), self.rules.now)
            if found.slot_at is None and not self.may_be_past:
                raise_past(definition, self.rules.now)
        except SchedulerError as error:
            _complain(node, error, {})
            return
        if found.slot_at is None:
            key = "at" if isinstance(definition.trigger, Once) else "end_at"
            node.complain(
                "has no slot to come: the schedule is done and fires nothing",
                *([key] if key in node.value else []),
                severity="warning",
            )


def _complain(node: DocumentNode, error: SchedulerError, spelled: Mapping[str, str]) -> None:
    word = str(getattr(error, "key", ""))
    key = spelled.get(word, word)
    node.complain(str(error), *([key] if key in node.value else []))
