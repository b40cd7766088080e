"""Side effects of jobs besides their outcome: state of plugins, messages, events.

The transaction that settles the jobs writes them. So a crash neither loses nor repeats anything, and a worker that
was considered dead writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from everwhen.model.job import Job
from everwhen.model.outcome import NewMessage, Outcome, PluginUpdate
from everwhen.model.output import OutputPiece, OutputStream
from everwhen.stores.transaction import Transaction

EVENTS = "events"  # the stream of a job's output
PIECE = 64 * 1024


def write_side_effects(tx: Transaction, ended: Sequence[tuple[Job, Outcome]], now: int) -> None:
    """Write the side effects of ended jobs, in the order in which the jobs are settled."""
    announced = [(job, outcome.events) for job, outcome in ended if outcome.events]
    if announced:
        tx.put_output([piece for job, events in announced for piece in _pieces(job, events)], [], now)
    left = [outcome.also for _, outcome in ended if outcome.also is not None]
    if not left:
        return
    updates = [one for one in left if isinstance(one, PluginUpdate)]
    messages = [one for one in left if isinstance(one, NewMessage)]
    if updates:
        _remember(tx, updates, now)
    if messages:
        tx.insert_messages(messages, now)


def _pieces(job: Job, events: str) -> list[OutputPiece]:
    stream, data = OutputStream(job.job_id, job.attempt, EVENTS), events.encode()
    return [OutputPiece(stream, at, data[at : at + PIECE]) for at in range(0, len(data), PIECE)]


def _remember(tx: Transaction, updates: Sequence[PluginUpdate], now: int) -> None:
    """Merge key by key, so that the updates of two jobs of one plugin that end together are both kept."""
    stored = tx.plugin_states({update.plugin for update in updates})
    states: dict[str, dict[str, Any]] = {plugin: json.loads(state) for plugin, state in stored.items()}
    for update in updates:
        states.setdefault(update.plugin, {}).update(json.loads(update.updates))
    tx.put_plugin_states({plugin: json.dumps(state) for plugin, state in sorted(states.items())}, now)
