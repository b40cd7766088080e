"""Draw the policies as time lines, from what `everwhen simulate` finds: docs/pictures/*.svg.

Run `python -m tools.draw_time_lines` after a change of a scene, of the drawing or of a rule;
`tests/docs/test_pictures.py` compares the files.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from everwhen.config.read import Host, read_configuration
from everwhen.model.declare import Declarations
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE, SECOND, to_datetime
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.schedule import Plan
from everwhen.operations.simulate import Scenario, simulate
from everwhen.operations.simulated_rows import AnyJob
from everwhen.operations.simulated_world import Line, SimulationCounts
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import parse_instant
from tools.svg import circle, document, path, point, rectangle, text
from tools.time_line_scenes import SCENES, Row, Scene

PICTURES = Path("docs/pictures")
ROOT = Path(__file__).parents[1]

# -- what happened --


class Record(SimulationCounts):
    """Keeps the events and jobs of a simulation, beside their counts."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.events: list[Event] = []
        self.jobs: dict[str, AnyJob] = {}
        self.starts: dict[str, int] = {}
        self.ends: dict[str, tuple[int, str]] = {}

    def record(self, event: Event) -> None:
        super().record(event)
        self.events.append(event)

    def fired(self, job: AnyJob) -> None:
        super().fired(job)
        self.jobs[job.job_id] = job

    def started(self, job: AnyJob, running: int, waited: int) -> None:
        super().started(job, running, waited)
        assert job.started_at is not None
        self.starts[job.job_id] = job.started_at

    def ended(self, job: AnyJob, status: str, now: int) -> None:
        super().ended(job, status, now)
        self.ends[job.job_id] = now, status

    def jobs_of(self, schedule_id: str) -> list[AnyJob]:
        return [job for job in self.jobs.values() if job.schedule_id == schedule_id]

    def events_of(self, schedule_id: str, *types: str) -> list[Event]:
        return [event for event in self.events if event.schedule_id == schedule_id and event.type in types]


@dataclass(slots=True)
class _Script:
    """How the runs of a scene go."""

    rows: dict[str, Row]
    counted: Counter[str] = field(default_factory=Counter)

    def run(self, job: AnyJob) -> tuple[int, Outcome]:
        runs = self.rows[job.schedule_id].runs
        minutes, status = runs[min(self.counted[job.schedule_id], len(runs) - 1)]
        self.counted[job.schedule_id] += 1
        failed = Outcome("failed", error="exit code 1")
        return minutes * MINUTE, SUCCEEDED if status == "succeeded" else failed


def play(scene: Scene) -> tuple[Record, dict[str, Row], dict[str, Plan]]:
    """Simulate a scene; return what happened, and the row and the plan of each schedule."""
    start, end = _instant(scene.start), _instant(scene.end)
    rows = {_id_of(number, row): row for number, row in enumerate(scene.rows)}
    declared = _declared(scene, rows, start)
    record = Record(start, end)
    outages = [(_instant(first), _instant(last)) for first, last in scene.outages]
    simulate(
        declared,
        start,
        end,
        scenario=Scenario(outages=outages),
        runs=_Script(rows).run,
        counts=record,
        max_workers=99,
    )
    policies = {policy.policy_id: policy for policy in declared.policies}
    plans = {
        one.schedule_id: Plan(
            one.schedule_id, one.definition, policies.get(one.definition.quiet_hours_id or "")
        )
        for one in declared.schedules
    }
    return record, rows, plans


def _id_of(number: int, row: Row) -> str:
    if row.agent:
        return f"{row.agent}.{row.label}"
    return row.label if row.label.isalpha() else f"row-{number}"


def _declared(scene: Scene, rows: dict[str, Row], now: int) -> Declarations:
    plain = [
        {"id": name, "run": {"command": ["true"]}, "timezone": scene.zone, **row.fields}
        for name, row in rows.items()
        if row.agent is None
    ]
    agents = {
        row.agent: {"command": ["true"], "schedules": {}} for row in rows.values() if row.agent is not None
    }
    for row in rows.values():
        if row.agent is not None:
            schedules = agents[row.agent]["schedules"]
            assert isinstance(schedules, dict)
            schedules[row.label] = {"timezone": scene.zone, **row.fields}
    sections = {"schedules": plain, "agents": agents, **scene.sections}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "everwhen.yaml"
        file.write_text(json.dumps({name: section for name, section in sections.items() if section}))
        return read_configuration(file, Host({}, lambda: "UTC", now)).declared


def _instant(written: str) -> int:
    return parse_instant(written, zone("UTC")) * SECOND


# -- the drawing --

WIDTH, LEFT, RIGHT = 880, 228, 28
AXIS = 42
TOP_OF_ROW, SLOTS, JOBS, LANE, BAR = 14, 24, 42, 21, 16
LEGEND = 34
LEAST = 12  # of the width of a bar

# The marks, in the order of the legend.
MARKS = {
    "fired": "slot that fired",
    "held": "held",
    "merged": "caught up by the job of another slot",
    "skipped": "skipped",
    "missed": "missed",
    "waiting": "waits",
    "open": "breaker open",
    "half open": "half open: one run is tried",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}


class Picture:
    """The time lines of one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.record, self.rows, self.plans = play(scene)
        self.start, self.end = self.record.start, self.record.end
        self.used: dict[str, None] = {}
        self.zone = zone(scene.zone)

    def svg(self) -> str:
        body: list[str] = []
        top: float = AXIS
        for number, name in enumerate(self.rows):
            drawn, height = self._row(name, top)
            if number:
                body.append(path(f"M16 {top}H{WIDTH - 16}", stroke="line", width=1))
            body += drawn
            top += height
        height = top + LEGEND
        behind = [*self._axis(top), *self._outages(top)]
        before = [*self._signs(top), *self._legend(top)]
        return document(
            width=WIDTH,
            height=round(height),
            title=self.scene.title,
            description=f"{self.scene.description} {self._in_words()}",
            style="",
            body=[*behind, *body, *before],
        )

    def _x(self, at: int) -> float:
        share = (at - self.start) / (self.end - self.start)
        return LEFT + min(max(share, 0), 1) * (WIDTH - LEFT - RIGHT)

    def _reading(self, at: int) -> str:
        return f"{to_datetime(at).astimezone(self.zone.tzinfo):%H:%M}"

    # -- behind the rows --

    def _axis(self, bottom: float) -> Iterator[str]:
        tick = self.scene.tick * MINUTE
        at = -(-self.start // tick) * tick
        while at <= self.end:
            x = self._x(at)
            yield path(f"M{point(x, AXIS)}V{bottom}", stroke="line", width=1)
            yield text(x, AXIS - 20, self._reading(at), "small quiet middle")
            at += tick

    def _outages(self, bottom: float) -> Iterator[str]:
        for first, last in self.scene.outages:
            left, right = self._x(_instant(first)), self._x(_instant(last))
            yield rectangle(left, AXIS, right - left, bottom - AXIS, fill="shade")
            yield rectangle(left, AXIS, right - left, bottom - AXIS, fill="hatching")

    def _signs(self, bottom: float) -> Iterator[str]:
        for first, last in self.scene.outages:
            yield _plate((self._x(_instant(first)) + self._x(_instant(last))) / 2, AXIS - 2, "nothing runs")
        if self.scene.clock_change is None:
            return
        at, written = self.scene.clock_change
        x = self._x(_instant(at))
        yield path(f"M{point(x, AXIS + 4)}V{bottom}", stroke="accent", dash="3 3", cap="butt")
        yield _plate(x, AXIS - 2, written, "accent-text")

    # -- a row --

    def _row(self, name: str, top: float) -> tuple[list[str], float]:
        row, line = self.rows[name], self.record.lines[name]
        bars, lanes = self._bars(name, top)
        notes = [*row.notes, *_counted(line)]
        height = max(JOBS + lanes * LANE + 10, TOP_OF_ROW + 12 + 16 * len(notes) + 14)
        labels = [text(20, top + TOP_OF_ROW + 12, row.label, "mono strong")]
        labels += [
            text(
                20,
                top + TOP_OF_ROW + 28 + 16 * number,
                note,
                "small" if number < len(row.notes) else "small quiet",
            )
            for number, note in enumerate(notes)
        ]
        drawn = [*self._closed(name, top, height), *self._states(name, top, height), *labels]
        return [*drawn, *self._slots(name, top), *bars], height

    def _closed(self, name: str, top: float, height: float) -> Iterator[str]:
        """Shade the times in which the schedule must not fire."""
        calendar = self.plans[name].calendar(self.start)
        closed = [at for at in range(self.start, self.end, MINUTE) if calendar.closed_reason(at)]
        for first, last in _spans(closed):
            left, right = self._x(first), self._x(last)
            yield rectangle(left, top, right - left, height, fill="shade")
            yield rectangle(left, top, right - left, height, fill="hatching")

    def _states(self, name: str, top: float, height: float) -> Iterator[str]:
        """Shade the times in which the breaker is not closed, or the schedule is dead."""
        since: tuple[int, str] | None = None
        changes = self.record.events_of(
            name, "breaker.opened", "breaker.half_opened", "breaker.closed", "schedule.died"
        )
        for event in sorted(changes, key=lambda event: event.at):
            if since is not None:
                yield from self._state(since[1], since[0], event.at, top, height)
            since = (event.at, event.type) if event.type != "breaker.closed" else None
        if since is not None:
            yield from self._state(since[1], since[0], self.end, top, height)

    def _state(self, kind: str, first: int, last: int, top: float, height: float) -> Iterator[str]:
        colour, written = {
            "breaker.opened": ("fail", "open"),
            "breaker.half_opened": ("hold", "half open"),
            "schedule.died": ("skip", "dead"),
        }[kind]
        self.used[written] = None
        left, right = self._x(first), self._x(last)
        yield rectangle(left, top + 2, right - left, height - 4, fill=f"{colour}-soft", radius=4)
        if right - left > 40:
            yield text(left + 8, top + height - 10, written, "small", f"{colour}-text")

    # -- slots --

    def _slots(self, name: str, top: float) -> Iterator[str]:
        y = top + SLOTS
        yield path(f"M{LEFT} {y}H{WIDTH - RIGHT}", stroke="line-2", width=1)
        for event in self.record.events_of(name, "schedule.skipped"):
            if event.reason == "superseded" and event.slot_at is not None:  # it was held until then
                self.used["held"] = None
                yield path(
                    f"M{point(self._x(event.slot_at), y)}H{self._x(event.at):.1f}",
                    stroke="hold",
                    width=4,
                    cap="butt",
                )
        for slot_at, mark, tip in sorted(self.fates(name)):
            self.used[mark] = None
            yield f"<g><title>{self._reading(slot_at)} {tip}</title>{_slot(mark, self._x(slot_at), y)}</g>"

    def fates(self, name: str) -> Iterator[tuple[int, str, str]]:
        calendar = self.plans[name].calendar(self.start)
        for job in self.record.jobs_of(name):
            if job.origin != "retry":
                yield job.slot_at, "fired", "fired"
        for event in self.record.events_of(name, "schedule.skipped", "schedule.missed", "schedule.caught_up"):
            assert event.slot_at is not None
            kind = {"schedule.skipped": "skipped", "schedule.missed": "missed"}.get(event.type, "merged")
            first, last = (event.detail.get(end, event.slot_at) for end in ("first", "last"))
            assert isinstance(first, int) and isinstance(last, int)
            fired = {job.slot_at for job in self.record.jobs_of(name)}
            slots = [event.slot_at] if first == last else calendar.due_slots(first, last)
            for slot_at in slots:
                if kind != "merged" or slot_at not in fired:
                    yield slot_at, kind, f"{MARKS[kind]}: {event.reason}" if event.reason else MARKS[kind]

    # -- jobs --

    def _bars(self, name: str, top: float) -> tuple[list[str], int]:
        ways: list[str] = []
        bars: list[str] = []
        free: list[float] = []  # where each lane ends
        for job in sorted(
            self.record.jobs_of(name), key=lambda job: (max(job.created_at, job.due_at), job.row_id)
        ):
            started = self.record.starts.get(job.job_id)
            end, status = self.record.ends.get(job.job_id, (self.end, "running"))
            left = self._x(end if started is None else started)
            right = left if started is None else max(self._x(end), left + LEAST)
            taken_from = (
                left if job.origin == "retry" else min(self._x(max(job.created_at, job.due_at)), left)
            )
            lane = next((number for number, until in enumerate(free) if until <= taken_from + 0.5), len(free))
            free[lane:] = [right, *free[lane + 1 :]]
            y = top + JOBS + lane * LANE
            ways += self._way(job, left, top + SLOTS, y + BAR / 2)
            if started is not None:
                bars += self._bar(job, left, right, y, status)
        return [*ways, *bars], max(len(free), 1)

    def _way(self, job: AnyJob, left: float, slot_y: float, y: float) -> Iterator[str]:
        """Draw how a job comes from its slot: straight down, after a hold, or after a wait."""
        slot_x = self._x(job.slot_at)
        if job.origin == "retry":
            created_x = self._x(job.created_at)
            if left - created_x > 3:
                self.used["waiting"] = None
                yield path(f"M{point(created_x + 3, y)}H{left - 2:.1f}", stroke="skip", dash="1 4")
            return
        at = max(job.created_at, job.due_at)
        created_x = self._x(at)
        is_held = job.origin == "schedule" and job.created_at - job.due_at > SECOND
        if is_held:
            self.used["held"] = None
            yield path(f"M{point(slot_x + 5, slot_y)}H{created_x:.1f}", stroke="hold", width=4, cap="butt")
        elif created_x - slot_x > 3:
            yield path(f"M{point(slot_x + 5, slot_y)}H{created_x:.1f}", stroke="skip", dash="1 4")
            self.used["waiting"] = None
        yield path(
            f"M{point(created_x, slot_y + (0 if created_x - slot_x > 3 else 5))}V{y:.1f}",
            stroke="text-3",
            width=1,
        )
        if left - created_x > 3:
            self.used["waiting"] = None
            yield path(f"M{point(created_x, y)}H{left - 2:.1f}", stroke="skip", dash="1 4")

    def _bar(self, job: AnyJob, left: float, right: float, y: float, status: str) -> Iterator[str]:
        colour = {"succeeded": "ok", "failed": "fail", "timed_out": "fail", "running": "ok"}.get(
            status, "skip"
        )
        self.used["succeeded" if status == "running" else status] = None
        attempt = f", retry {job.retry}" if job.retry else ""
        tip = f"slot {self._reading(job.slot_at)}: {status}{attempt}"
        glyph = _glyph(status, (left + right) / 2, y + BAR / 2)
        yield f"<g><title>{tip}</title>{rectangle(left, y, right - left, BAR, fill=colour, radius=4)}{glyph}</g>"

    # -- the legend --

    def _legend(self, top: float) -> Iterator[str]:
        yield path(f"M16 {top}H{WIDTH - 16}", stroke="line", width=1)
        x, y = 24.0, top + LEGEND / 2
        for mark, written in MARKS.items():
            if mark not in self.used:
                continue
            if mark in ("succeeded", "failed", "cancelled"):
                colour = {"succeeded": "ok", "failed": "fail"}.get(mark, "skip")
                yield rectangle(x - 4, y - 7, 18, 14, fill=colour, radius=4) + _glyph(mark, x + 5, y)
                x += 8
            elif mark in ("open", "half open"):
                colour = {"open": "fail", "half open": "hold"}[mark]
                edge = f' stroke="var(--{colour})" stroke-opacity=".4"'
                yield rectangle(x - 4, y - 6, 16, 12, fill=f"{colour}-soft", radius=3, more=edge)
                x += 6
            elif mark == "held":
                yield path(f"M{point(x - 4, y)}h16", stroke="hold", width=4, cap="butt")
                x += 6
            elif mark == "waiting":
                yield path(f"M{point(x - 4, y)}h16", stroke="skip", dash="1 4")
                x += 6
            else:
                yield _slot(mark, x, y)
            yield text(x + 12, y + 4, written, "small")
            x += 30 + 4.9 * len(written)

    def _in_words(self) -> str:
        """Say what the picture shows, for readers who do not see it."""
        return " ".join(
            f"{row.label}{f' ({row.notes[0]})' if row.notes else ''}: {', '.join(_counted(self.record.lines[name]))}."
            for name, row in self.rows.items()
        )


def _counted(line: Line) -> list[str]:
    """Return the counts of a simulation in words, as few lines as they need."""
    lines = [f"{line.fired} slot{'s' if line.fired != 1 else ''} fired"]
    if line.caught_up:
        lines.append(f"{line.caught_up} merged into another")
    for kind, counts in (("skipped", line.skipped), ("missed", line.missed)):
        lines += [f"{count} {kind}: {reason}" for reason, count in counts.items()]
    return lines


def _spans(minutes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Join minutes that follow each other."""
    first: int | None = None
    for number, at in enumerate(minutes):
        first = at if first is None else first
        if number + 1 == len(minutes) or minutes[number + 1] != at + MINUTE:
            yield first, at + MINUTE
            first = None


def _plate(x: float, y: float, written: str, colour: str = "text-3") -> str:
    width = 6.1 * len(written) + 12
    back = rectangle(x - width / 2, y - 8, width, 16, fill="surface", radius=8, more=' stroke="var(--line)"')
    return back + text(x, y + 4, written, "small middle", colour)


def _slot(mark: str, x: float, y: float) -> str:
    match mark:
        case "fired":
            return circle(x, y, 4.5, fill="text-2")
        case "merged":
            return circle(x, y, 4, fill="surface", stroke="ok")
        case "skipped":
            return circle(x, y, 5, fill="surface", stroke="skip") + path(
                f"M{point(x - 2.5, y)}h5", stroke="skip"
            )
        case _:
            diamond = f"M{point(x, y - 6)}l6 6l-6 6l-6-6z"
            return path(diamond, stroke="miss", fill="miss") + path(
                f"M{point(x - 1.8, y - 1.8)}l3.6 3.6m0-3.6l-3.6 3.6", stroke="on-mark", width=1.2
            )


def _glyph(status: str, x: float, y: float) -> str:
    drawn = {
        "succeeded": f"M{point(x - 3.5, y)}l2.5 2.5l4.5-5",
        "failed": f"M{point(x - 2.8, y - 2.8)}l5.6 5.6m0-5.6l-5.6 5.6",
        "cancelled": f"M{point(x - 3, y)}h6",
    }.get(status)
    return path(drawn, stroke="on-mark", width=1.8) if drawn else ""


def pictures() -> dict[Path, str]:
    """Return the content of every picture, by its path."""
    return {PICTURES / f"{scene.name}.svg": Picture(scene).svg() for scene in SCENES}


def main() -> None:
    for file, content in pictures().items():
        (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / file).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
