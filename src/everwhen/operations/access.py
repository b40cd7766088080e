"""The caller of an operation: the token, what it may do, and the schedules that it may see.

To a token with an owner, the schedule of somebody else and one that does not exist are the same. Commands that only
read import this module, so what only changes need is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from everwhen.errors import AccessError, LimitError, SubmissionError, UnknownScheduleError, shown
from everwhen.model.limits import FOR_EVER
from everwhen.model.payload import LARGEST_PAYLOAD
from everwhen.model.policy import Budget
from everwhen.model.queries import Entry, EventFilter, Facet, ScheduleFilter, ScheduleNames, ScheduleOrder
from everwhen.model.token import Token, actor_of, budget_of
from everwhen.store.opened import store_of

if TYPE_CHECKING:
    from everwhen.model.changes import Cause, Terms
    from everwhen.model.group import Groups
    from everwhen.model.schedule import Definition, Schedule
    from everwhen.runtime import Runtime

COUNTED = 10_000
PORTION, MOST_OF_PAGE = 100, 4 << 20  # schedules that are read at once, and characters of a page of them
MCP = "mcp"
PRIVATE_URLS = "api.allow_private_urls: true"


@dataclass(frozen=True, slots=True)
class Caller:
    """The token of a request, and what the runtime lets callers of that kind do."""

    token: Token
    allows_code: bool = False
    max_payload: int = LARGEST_PAYLOAD
    safe_kinds: Callable[[], Collection[str]] = frozenset  # of other packages: those that run no code
    groups: Callable[[], Groups] = dict  # of the configuration in force
    allows_private_urls: bool = True
    via: str | None = None  # the surface that calls for its own caller: `mcp`
    has_accepted: bool = False  # a client says that its user was asked, and accepted what this request does

    @property
    def actor(self) -> str | None:
        return actor_of(self.token)

    @property
    def budget(self) -> Budget | None:
        """Return what its token may cause; None when that is not limited."""
        return budget_of(self.token)

    @property
    def terms(self) -> Terms:
        """Return what its token may have."""
        from everwhen.model.changes import Terms

        token = self.token
        return Terms(
            token.token_id,
            token.limits.max_schedules,
            is_spaced=token.limits.min_interval is not None,
            is_of_run=token.confined is not None,
        )

    @property
    def cause(self) -> Cause:
        """Return what bounds the jobs that it requests.

        A call over MCP, or with the token of a run, is one of an agent. The service itself marks calls over MCP: the
        mark only restricts, and without it a caller has what its token allows over REST.
        """
        from everwhen.model.changes import Cause

        return Cause(self.budget, self.terms, is_agent=self.via == MCP or self.token.confined is not None)

    def refuse_at_its_end(self, depth: int | None = None) -> None:
        """Refuse to a run at its depth limit whatever makes something fire; `depth`: of the schedule that would.

        A schedule that lies less deep than what the run makes would run again and again, and never come to its end.
        """
        confined = self.token.confined
        if confined is None:
            return
        if confined.depth > confined.max_depth:
            raise LimitError(
                f"this is a run of a schedule that a run made, at depth {confined.depth - 1}; runs make none beyond "
                f"depth {confined.max_depth}, nor do they change or start one: do the work now, or tell a person",
                limit="max_depth",
            )
        if depth is not None and depth < confined.depth:
            raise LimitError(
                f"this schedule is at depth {depth}, and this run starts only those at depth {confined.depth}; make "
                "another, or change it first",
                limit="max_depth",
            )

    @property
    def may_run_code(self) -> bool:
        """Return whether it may submit code, which runs as the service and reads an environment of no owner."""
        return self.allows_code and self.token.may("admin") and self.token.owner is None

    def refuse_code(self, kind: str) -> None:
        """Refuse a target that runs code; an installed kind does unless it is registered otherwise."""
        if self.may_run_code:
            return
        from everwhen.model.target_kinds import KINDS

        known = KINDS.get(kind)
        if kind not in self.safe_kinds() if known is None else known.runs_code:
            raise AccessError(
                f"a {shown(kind)} target runs code: only an admin token without an owner may submit one, and only "
                "where api.allow_code_targets is true"
            )

    def refuse_private(self, path: str, url: str) -> None:
        """Refuse a URL that no job could request, because its address is not public."""
        if self.allows_private_urls:
            return
        from everwhen.model.addresses import private_host

        if (host := private_host(url)) is not None:
            raise SubmissionError(
                [
                    (
                        path,
                        f'"{shown(host)}" is not a public address; the service allows others with {PRIVATE_URLS}',
                    )
                ]
            )

    def is_hidden(self, group: str | None) -> bool:
        """Return whether a group of that name exists, but not for this caller."""
        owner = self.token.owner
        if group is None or owner is None or self.token.confined is not None:
            return False
        from everwhen.operations.groups import is_hidden

        return is_hidden(self.groups(), group, owner)

    def refuse_stranger(self, schedule: Schedule) -> None:
        """Refuse a schedule of another owner as if it did not exist; to the token of a run, all but those of runs."""
        if not self.token.sees(schedule.state.owner) or not self._reaches(schedule):
            raise UnknownScheduleError(schedule.state.schedule_id)

    def _reaches(self, schedule: Schedule) -> bool:
        confined, made = self.token.confined, schedule.definition.made
        if confined is None:
            return True
        is_of_run = made is not None and made.job_id is not None
        return is_of_run and (schedule.definition.group, schedule.state.owner) == (
            confined.group,
            self.token.owner,
        )

    def usable_groups(self, groups: Groups) -> Groups:
        """Return the groups that this caller may use: of its owner and shared ones; in a run, that of the run."""
        if (confined := self.token.confined) is not None:
            return {key: group for key, group in groups.items() if key == ("agent", confined.group)}
        from everwhen.operations.groups import usable_groups

        return usable_groups(groups, self.token.owner)

    def key_of(self, key: str) -> str:
        """Return a key of this caller as it is stored: keys belong to owners, those of runs to their agent."""
        confined = self.token.confined
        space = "" if confined is None else f"agent:{confined.group}/"
        return f"{self.token.owner or ''}/{space}{key}"

    def refuse_unusable(self, schedule: Schedule) -> None:
        """Refuse to start a schedule of another owner, or one that runs a group which this caller may not use; to a run
        at its depth limit every schedule."""
        self.refuse_stranger(schedule)
        made = schedule.definition.made
        self.refuse_at_its_end(0 if made is None else made.depth)
        if self.token.owner is None or self.token.confined is not None:
            return
        from everwhen.operations.groups import refuse_unusable

        refuse_unusable(self.groups(), schedule, self.token.owner)

    @property
    def may_approve(self) -> bool:
        """Return whether it may answer requests for approval: not with a limit of its own, and not as a run."""
        return not self.token.limits.needs_approval and self.token.confined is None

    def needs_approval_of(self, definition: Definition) -> bool:
        """Return whether what this caller makes or changes to this definition waits for the approval of another."""
        return self.token.limits.needs_approval_of(definition, is_accepted=self.has_accepted)

    def refuse_unapproved(self, schedule: Schedule) -> None:
        """Refuse a schedule that waits for approval to a token that cannot give it."""
        self.refuse_unusable(schedule)
        if self.may_approve:
            return
        from everwhen.decide.approval import is_waiting

        if is_waiting(schedule.state):
            raise AccessError("this schedule waits for approval, which this token cannot give")

    def refuse_other_keys(self, schedule: Schedule) -> None:
        """Refuse another payload to a token whose schedules need approval: what was approved runs as it is."""
        self.refuse_unapproved(schedule)
        if self.token.limits.needs_approval:
            raise AccessError(
                "this token triggers what was approved as it is; leave the payload, or the body, out"
            )


def get_entry(runtime: Runtime, schedule_id: str, caller: Caller) -> Entry:
    """Return a schedule that the caller may see; raise UnknownScheduleError when there is none."""
    entry = store_of(runtime).catalogue.entry(schedule_id)
    if entry is None:
        raise UnknownScheduleError(schedule_id)
    caller.refuse_stranger(entry.schedule)
    return entry


def get_entry_by_key(runtime: Runtime, key: str, caller: Caller, owner: str | None = None) -> Entry:
    """Return the schedule of a caller's own key; a caller without an owner may name the owner whose key it is."""
    whose = caller.token.owner or owner or ""
    full_key = f"{whose}/{key}" if caller.token.confined is None else caller.key_of(key)
    found = store_of(runtime).catalogue.id_of_key(full_key)
    if found is None or owner not in (None, whose):
        raise UnknownScheduleError(key)
    return get_entry(runtime, found, caller)


MOST_CALLED, MOST_BEGINNING = 20, 200


def find_schedules(runtime: Runtime, text: str, caller: Caller) -> list[ScheduleNames]:
    """Return the schedules that a person may mean by a text, among those that the caller may see.

    That is the schedule with this id; or else the one with this key, the caller's own before those of others; or else
    all with this name. More than one means that the text is ambiguous.
    """
    catalogue, owner = store_of(runtime).catalogue, caller.token.owner
    of_id = catalogue.names_of(text)
    if of_id is not None and _is_seen(of_id, caller):
        return [of_id]
    own_key, maker = caller.key_of(text), _maker_in_run(caller)
    found = catalogue.called(text, own_key, owner=owner, maker=maker, limit=MOST_CALLED)
    own = [one for one in found if one.key == own_key]
    return own or [one for one in found if key_of(one) == text] or found


def complete_schedules(runtime: Runtime, start: str, caller: Caller) -> list[ScheduleNames]:
    """Return schedules whose id or key begins with a text, among those that the caller may see."""
    owner, maker = caller.token.owner, _maker_in_run(caller)
    found = store_of(runtime).catalogue.beginning(start, owner=owner, maker=maker, limit=MOST_BEGINNING)
    return [one for one in found if (key_of(one) or one.schedule_id).startswith(start)]


def _is_seen(names: ScheduleNames, caller: Caller) -> bool:
    return caller.token.sees(names.owner) and _maker_in_run(caller) in (None, names.token_id)


def _maker_in_run(caller: Caller) -> str | None:
    """Return the id of the token whose schedules the token of a run reaches; None for other tokens."""
    return None if caller.token.confined is None else caller.token.token_id


def uid_for(runtime: Runtime, schedule_id: str, caller: Caller, at: int = FOR_EVER) -> str:
    """Return the uid of an id that the caller may read, also when its schedule is deleted.

    An id that was deleted and added again has had two schedules; `at` selects the one that existed then.
    """
    entry = store_of(runtime).catalogue.entry(schedule_id)
    if entry is not None:
        caller.refuse_stranger(entry.schedule)
        earlier = _gone(runtime, schedule_id, caller, at) if at < entry.created_at else None
        return earlier or entry.schedule.state.uid
    uid = _gone(runtime, schedule_id, caller, at)
    if uid is None:
        raise UnknownScheduleError(schedule_id)
    return uid


def _gone(runtime: Runtime, schedule_id: str, caller: Caller, at: int) -> str | None:
    """Return the uid on record for an id, if the caller may see it."""
    if caller.token.confined is not None:
        return None
    uid = store_of(runtime).ledger.uid_of(schedule_id, at) if _is_a_name(schedule_id) else None
    last = store_of(runtime).ledger.events(EventFilter(uid=uid), limit=1) if uid is not None else []
    return uid if last and caller.token.sees(last[0].event.owner) else None


def _is_a_name(schedule_id: str) -> bool:
    plain = schedule_id.replace("-", "").replace("_", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and len(schedule_id) <= 201


def key_of(entry: Entry | ScheduleNames) -> str | None:
    """Return the caller's own key of a schedule, without the owner in front of it."""
    return None if entry.key is None else entry.key.rpartition("/")[2]


FacetCounts = dict[str, dict[str, int]]  # numbers of schedules by column and value


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Some of many schedules; `total` is counted up to a bound, and is an estimate beyond it.

    `has_more`: the page is full, or ends early because its schedules are large.
    """

    entries: list[Entry]
    total: int
    is_approximate: bool = False
    facets: FacetCounts | None = None
    has_more: bool = False


def list_entries(
    runtime: Runtime,
    wanted: ScheduleFilter,
    caller: Caller,
    *,
    limit: int,
    before: int | None = None,
    offset: int = 0,
    order: tuple[ScheduleOrder, bool] | None = None,
    facets: Sequence[Facet] = (),
) -> SchedulePage:
    """Return a page of the schedules that the caller may see, newest first; or by `order`, a column and whether it
    descends. `facets`: what is counted beside it."""
    visible = visible_to(wanted, caller)
    counted = count_facets(runtime, wanted, caller, facets) if facets else None
    if visible is None:
        return SchedulePage([], 0, facets=counted)
    catalogue = store_of(runtime).catalogue
    if order is None:
        read = partial(catalogue.entries, visible)
        entries = _entries_within(read, limit=limit, before=before, offset=offset)
    else:
        read = partial(catalogue.ordered_entries, visible, order[0], is_descending=order[1])
        entries = _cut(read(limit=limit, offset=offset))
    page = SchedulePage(entries, len(entries), facets=counted, has_more=_is_cut(entries, limit))
    if (
        before is None and not offset and not page.has_more
    ):  # all of them: a filter that matches rarely is a scan
        return page
    total = _total_in(counted, visible)
    if total is None:
        total = catalogue.count(visible, most=COUNTED + 1)
    if total <= COUNTED:
        return replace(page, total=total)
    if visible != ScheduleFilter():
        return replace(page, total=COUNTED, is_approximate=True)
    newest = catalogue.entries(visible, limit=1)
    return replace(page, total=max(newest[0].schedule.state.row_id, COUNTED), is_approximate=True)


def _entries_within(
    read: Callable[..., list[Entry]], *, limit: int, before: int | None, offset: int
) -> list[Entry]:
    """Read a page in portions, so that of large schedules no more are read than a page has."""
    entries: list[Entry] = []
    while len(entries) < limit:
        wanted = min(limit - len(entries), PORTION)
        portion = read(limit=wanted, before=before, offset=offset)
        entries = _cut([*entries, *portion])
        if len(portion) < wanted or _size_of(entries) > MOST_OF_PAGE:
            break
        before, offset = portion[-1].schedule.state.row_id, 0
    return entries


def _cut(entries: list[Entry]) -> list[Entry]:
    """Return the first of them, up to the one with which the page is large."""
    sizes = accumulate(entry.schedule.definition.size for entry in entries)
    large = next((number for number, size in enumerate(sizes, 1) if size > MOST_OF_PAGE), len(entries))
    return entries[:large]


def _is_cut(entries: list[Entry], limit: int) -> bool:
    return len(entries) == limit or _size_of(entries) > MOST_OF_PAGE


def _size_of(entries: list[Entry]) -> int:
    return sum(entry.schedule.definition.size for entry in entries)


def _total_in(counted: FacetCounts | None, wanted: ScheduleFilter) -> int | None:
    """Return how many schedules match, as far as that was counted: by status, whatever state is wanted."""
    by_status = (counted or {}).get("status")
    if by_status is None or wanted.paused_by is not None:
        return None
    flags = {"failing": wanted.is_failing, "running": wanted.is_running, "held": wanted.is_held}
    states = [word for word, is_wanted in flags.items() if is_wanted]
    states += [wanted.status] if wanted.status is not None else []
    if not states:
        return sum(number for word, number in by_status.items() if word not in flags)
    return by_status.get(states[0], 0) if len(states) == 1 else None


def count_schedules(runtime: Runtime, owner: str | None, most: int) -> int:
    """Return how many schedules there are, of an owner if one is named; counting stops at `most`."""
    return store_of(runtime).catalogue.count(ScheduleFilter(owner=owner), most=most)


def visible_to(wanted: ScheduleFilter, caller: Caller) -> ScheduleFilter | None:
    """Return the filter for what the caller may see of what is wanted; None: nothing."""
    owner, confined = caller.token.owner, caller.token.confined
    if owner is not None:
        if wanted.owner not in (None, owner) or caller.is_hidden(wanted.group):
            return None
        wanted = wanted._replace(owner=owner)
    if confined is not None:
        if wanted.group not in (None, confined.group):
            return None
        wanted = wanted._replace(group=confined.group, token_id=caller.token.token_id)
    return wanted


MOST_VALUES = 100


def count_facets(
    runtime: Runtime, wanted: ScheduleFilter, caller: Caller, facets: Sequence[Facet]
) -> FacetCounts:
    """Count what the caller may see by these columns, whatever the filter says about the state of schedules."""
    stateless = wanted._replace(
        status=None, paused_by=None, is_failing=False, is_running=False, is_held=False
    )
    visible, catalogue = visible_to(stateless, caller), store_of(runtime).catalogue
    if visible is None:
        return {facet: {} for facet in facets}
    counted = catalogue.facets(visible, facets, most=MOST_VALUES)
    return {str(facet): counts for facet, counts in counted.items()}


def config_places(runtime: Runtime) -> dict[str, str]:
    """Return where each schedule of the current configuration is declared: file and line by id."""
    return store_of(runtime).catalogue.config_places()
