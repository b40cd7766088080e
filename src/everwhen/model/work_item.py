"""The item that an agent takes from a work source, its outcome, and the prompt that is built from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from everwhen.model.one_line import one_line

NO_PROMPT = "Execute scheduled task."
LONGEST_FACT = 2_000  # a URL may be long

WorkStatus = Literal["success", "failure"]


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One item. `id` identifies it in its source, `external_id` is its id for people."""

    id: str
    title: str
    description: str = ""
    source: str = ""
    external_id: str = ""
    priority: str = "medium"
    labels: tuple[str, ...] = ()
    url: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkOutcome:
    """The outcome of an item, as it is reported to its source."""

    status: WorkStatus
    summary: str = ""
    error: str | None = None
    job_id: str = ""


class WorkSource(Protocol):
    """One inbox. It may block: it is called on a thread of its own. An error that it raises fails at most the run.

    An item belongs to its claimant (`by`, one attempt of one job) until it is completed or released. A claim whose
    holder died must become available again; the source decides how.
    """

    def fetch_available(self, *, limit: int = 10) -> Sequence[WorkItem]:
        """Return items that may be claimed, the next one first."""
        ...

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        """Claim an item and return it; None when another claimant was faster. Its id may have changed."""
        ...

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        """Record that the work on a claimed item has ended."""
        ...

    def release(self, item_id: str, *, reason: str) -> None:
        """Make a claimed item available again: the work on it did not take place."""
        ...

    def get(self, item_id: str) -> WorkItem | None:
        """Return one item, claimed or not; None when it is unknown."""
        ...


OpenWorkSource = Callable[[Mapping[str, Any]], WorkSource]
"""A function that opens a kind of source from its fields: `{type: directory, path: inbox}`."""


def build_schedule_prompt(schedule: Any, work_item: WorkItem | None = None, *, default: str = "") -> str:
    """Return the prompt of one run: the schedule's own, else the agent's default, else a generic one; then the item.

    `schedule` is anything with a prompt, an object or a mapping.

    >>> build_schedule_prompt({"prompt": "Look around."})
    'Look around.'
    >>> build_schedule_prompt({})
    'Execute scheduled task.'
    """
    own = schedule.get("prompt") if isinstance(schedule, Mapping) else getattr(schedule, "prompt", None)
    prompt = str(own or default or NO_PROMPT)
    return prompt if work_item is None else f"{prompt}\n\n{describe_item(work_item)}"


def describe_item(item: WorkItem) -> str:
    """Format an item as a section of a prompt: its title and its facts are one line each, whatever they contain."""
    bullets = [("Source", item.source), ("ID", item.external_id or item.id), ("Priority", item.priority)]
    bullets += [("Labels", ", ".join(item.labels)), ("URL", item.url or "")]
    facts = "\n".join(f"- **{name}:** {one_line(value, LONGEST_FACT)}" for name, value in bullets if value)
    parts = [f"## Work Item: {one_line(item.title)}", item.description.strip(), facts]
    return "\n\n".join(part for part in parts if part)


def item_of(fields: Mapping[str, Any], *, source: str) -> WorkItem:
    """Build an item from the fields that a source returns; only `id` is required."""
    item_id = str(fields.get("id") or "")
    if not item_id:
        raise ValueError("a work item needs an id")
    labels = fields.get("labels") or ()
    return WorkItem(
        id=item_id,
        title=str(fields.get("title") or item_id),
        description=str(fields.get("description") or ""),
        source=str(fields.get("source") or source),
        external_id=str(fields.get("external_id") or item_id),
        priority=str(fields.get("priority") or "medium"),
        labels=(labels,) if isinstance(labels, str) else tuple(str(label) for label in labels),
        url=None if fields.get("url") is None else str(fields["url"]),
        metadata=dict(fields.get("metadata") or {}),
    )
