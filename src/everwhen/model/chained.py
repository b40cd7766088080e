"""The rules for schedules that run as a chain of one-shot queue jobs, without a scheduler process (`rq-chain`)."""

from __future__ import annotations

from collections.abc import Iterator

from everwhen.model.schedule import Definition
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once, OnRequest, Trigger

RQ_CHAIN = "rq-chain"
OVERLAPS = ("skip", "queue")

_INSTEAD = 'with dispatch "local", "rq" or "celery" it can'
_COMPLETION = (
    'an interval counted from completion cannot run with dispatch "rq-chain": the next run is put into the queue '
    f"before this one begins; {_INSTEAD}, and so it can with interval_from: slot"
)


def chain_faults(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield why a schedule cannot run as a chain: the invalid key, and the reason.

    A run puts the next one into the queue before it begins, so the next slot must be known by then and may depend on
    the clock only.
    """
    if not isinstance(definition.trigger, Every):
        key, name = _trigger_key(definition.trigger)
        yield key, f'{name} cannot run with dispatch "rq-chain", which knows intervals only; {_INSTEAD}'
    elif definition.is_chain:
        yield "interval_from", _COMPLETION
    if definition.if_running not in OVERLAPS:
        yield (
            "if_running",
            f'"{definition.if_running}" cannot be had with dispatch "rq-chain", only "skip" or "queue"; {_INSTEAD}',
        )


def _trigger_key(trigger: Trigger) -> tuple[str, str]:
    """Return the key of the trigger, and its name in a message."""
    match trigger:
        case Cron():
            return "cron", "a cron expression"
        case Once():
            return trigger.kind, f'a one-shot ("{trigger.kind}")'
        case OnRequest():
            return "type", f'type "{trigger.kind}"'
        case EveryMonth() | Every():
            return "every", f'"{trigger.text}"'
