"""The report: what was done to a world, what resulted, and how to repeat it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from everwhen.version import __version__
from tests.proof.account import Account
from tests.proof.callers import Callers
from tests.proof.nemesis import Diary
from tests.proof.overlaps import Nodes, overlaps_of
from tests.proof.plan import Kind
from tests.proof.receiver import ALERTS, EVENTS, INBOX, PING
from tests.proof.users import Users
from tests.proof.verdict import Recovery, Silence, longest_gap, recoveries, silences
from tests.proof.worlds import World

LONG = 3.0  # seconds: the length of a lease in these worlds


@dataclass(frozen=True, slots=True)
class Trial:
    """One world, one plan, one verdict."""

    world: World
    seed: int
    command: str
    diary: Diary
    users: Users
    callers: Callers
    refused: Mapping[Kind, str]
    account: Account
    broken: Sequence[str]

    @property
    def title(self) -> str:
        machines = len(self.world.machines)
        return f"{self.world.title}, {machines} machine{'s'[: machines != 1]}"


def spell(trials: Sequence[Trial]) -> str:
    """Return the whole report, as Markdown."""
    parts = [
        f"# Report of the proof: {'; '.join(trial.title for trial in trials)}",
        f"everwhen {__version__}.",
        *(part for trial in trials for part in _of(trial)),
    ]
    return "\n\n".join(parts) + "\n"


def _of(trial: Trial) -> list[str]:
    account, diary = trial.account, trial.diary
    faults = Counter(struck.strike.kind for struck in diary.struck)
    jobs = Counter(job.status for job in account.jobs.values())
    attempts = Counter(min(job.attempt, 4) for job in account.jobs.values())
    rescued = sum(job.rescues for job in account.jobs.values())
    verdict = "**0 lost, 0 doubled, every job settled, no limit passed.**"
    if trial.broken:
        verdict = f"**{len(trial.broken)} promises broken:**\n\n" + _list(trial.broken)
    return [
        f"## {trial.title}",
        verdict,
        (
            f"Seed {trial.seed}, {diary.ended - diary.began:.0f} s, {sum(faults.values())} faults, "
            f"{len(trial.world.processes)} processes started {sum(p.starts for p in trial.world.processes)} times."
        ),
        f"Once more: `{trial.command}`",
        f"{account.ledger}.".replace(": every", "; every"),
        _of_the_oracle(account),
        (
            f"Work was begun {sum(line.what == 'begin' for line in account.lines)} times, as the work itself noted. "
            f"Rescues: {rescued}; jobs that began more than once: {attempts[2] + attempts[3] + attempts[4]}. "
            f"Nodes lost: {account.events['node.lost']}; steps of the clock on record: "
            f"{account.events['scheduler.clock_stepped']}. Longest time in which nothing began: "
            f"{longest_gap(account.lines, diary):.1f} s."
        ),
        "### Runs at once",
        _overlaps(account, trial.world),
        "### Faults",
        _recovery_table(faults, recoveries(account.lines, diary)),
        _refused(trial.refused),
        "### Silences",
        _silences(silences(account.lines, diary, trial.world.processes, LONG), diary),
        "### Slots",
        _table(("what became of it", "slots"), account.slots.most_common()),
        "### Jobs",
        _table(("outcome", "jobs"), jobs.most_common()),
        "### Watchers",
        _watches(trial),
        "### Actions of users",
        _actions(trial.users.counts, "database away"),
        "### Calls of the REST API",
        _actions(trial.callers.counts, "no answer"),
        "In the place of an answer: "
        + (
            ", ".join(f"{kind} {count}" for kind, count in trial.callers.unanswered.most_common())
            or "nothing"
        )
        + ".",
        *_starts(trial.world),
    ]


def _of_the_oracle(account: Account) -> str:
    slots = account.oracle.slots
    return (
        f"An oracle that shares no code with everwhen's timetable computed {sum(slots.values())} slots anew: "
        f"{slots['arithmetic']} by arithmetic, {slots['cron']} by cronsim, {slots['chain']} of chains by their ends."
    )


def _overlaps(account: Account, world: World) -> str:
    nodes = Nodes.of(world.processes, account.lost_nodes)
    found = list(overlaps_of(account.lines, account.jobs, account.allowing, nodes))
    if not found:
        return "No two runs of a schedule that does not allow it were under way at once."
    longest = {(one.earlier.kind, one.excuse): 0.0 for one in found}
    for one in found:
        key = (one.earlier.kind, one.excuse)
        longest[key] = max(longest[key], one.seconds)
    counts = Counter((one.earlier.kind, one.excuse) for one in found)
    rows = [
        (kind, count, f"{longest[kind, excuse]:.1f}", excuse or "nothing: a promise is broken")
        for (kind, excuse), count in counts.most_common()
    ]
    return _table(("the first run was", "times", "longest (s)", "what excuses it"), rows)


def _recovery_table(faults: Counter[Kind], found: Iterable[Recovery]) -> str:
    rows = []
    by_kind = (
        {kind: [one for one in found if one.kind == kind] for kind in faults}
        if (found := list(found))
        else {}
    )
    for kind, ones in sorted(by_kind.items()):
        seconds = [one.seconds for one in ones if one.seconds is not None]
        middle, worst = (f"{median(seconds):.2f}", f"{max(seconds):.2f}") if seconds else ("-", "-")
        rows.append((kind, faults[kind], middle, worst, f"{max(one.silence for one in ones):.2f}"))
    head = ("fault", "times", "work again after (s, median)", "worst", "longest silence around it (s)")
    return _table(head, rows)


def _silences(found: Sequence[Silence], diary: Diary) -> str:
    if not found:
        return f"There was no time of {LONG:g} s in which no work began."
    rows = [
        (
            f"{one.began - diary.began:.1f}",
            f"{one.ended - one.began:.1f}",
            "; ".join(one.faults) or "none",
            ", ".join(one.absent) or "nobody",
        )
        for one in found
    ]
    return _table(("from (s)", "for (s)", "faults then, or a second before", "not at work"), rows)


def _refused(refused: Mapping[Kind, str]) -> str:
    if not refused:
        return "Every kind of fault was exercised."
    return "Not exercised here: " + "; ".join(f"{kind} ({why})" for kind, why in refused.items()) + "."


def _watches(trial: Trial) -> str:
    """Say what has arrived, and what of it for the second time."""
    watches, taken = trial.account.watches, trial.world.receiver.arrivals.taken
    assert watches is not None
    names = {ALERTS: "alerts", EVENTS: "deliveries of events", INBOX: "messages", PING: "pings"}
    rows = [
        (name, len({arrival.id for arrival in taken[path]}), len(taken[path])) for path, name in names.items()
    ]
    rows.append(("entries of a listener", len(set(watches.entries)), len(watches.entries)))
    events: Counter[str] = Counter(one.event.type for one in watches.events)
    reached = ("schedule.silent", "budget.reached", "schedule.approval_requested", "schedule.approved")
    counted = ", ".join(f"{kind} {events[kind]}" for kind in reached)
    return f"{_table(('what', 'arrived', 'times'), rows)}\n\nEvents: {counted}."


def _actions(counts: Counter[tuple[str, str]], away: str) -> str:
    names, ends = sorted({name for name, _ in counts}), ("done", "refused", away)
    return _table(("action", *ends), [(name, *(counts[name, end] for end in ends)) for name in names])


def _starts(world: World) -> list[str]:
    failed = [fields for process in world.processes for fields in process.ended_early]
    if not failed:
        return []
    return [
        f"Starts that failed and were tried again by the supervisor: {len(failed)}, the last one: “{failed[-1]}”."
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _list(fields: Sequence[str]) -> str:
    shown = [f"- {line}" for line in fields[:50]]
    return "\n".join([*shown, *([f"- … and {len(fields) - 50} more"] if len(fields) > 50 else [])])
