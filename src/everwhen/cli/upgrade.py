"""The first start of a new release: stored schedules get its protections, and operators learn which ones changed."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.cli.configuration import this_host
from everwhen.cli.terminal import secho
from everwhen.config.read import Configuration
from everwhen.config.submission import rules_of, with_protections
from everwhen.model.schedule import Definition
from everwhen.operations.apply import Applied
from everwhen.operations.quiet_hours import policy_ids
from everwhen.operations.upgrade import protect_schedules, upgrade_notes
from everwhen.runtime import Runtime


def protect_stored(runtime: Runtime, configuration: Configuration) -> list[str]:
    """Give schedules from REST and Python the protections of their groups; return the ids of those that changed."""
    around = rules_of(configuration, this_host(), policy_ids(runtime))

    def protect(schedule_id: str, stored: Definition) -> Definition | None:
        return with_protections(schedule_id, stored, around)

    return protect_schedules(runtime, protect)


def tell_of_upgrade(applied: Applied, protected: Sequence[str]) -> None:
    for note in upgrade_notes(applied, protected):
        secho(note, err=True, fg="yellow")
