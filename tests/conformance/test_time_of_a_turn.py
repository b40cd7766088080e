"""A caller that stops a schedule reads the clock before it gets its transaction, and others fire slots meanwhile
(E8).

The end is dated by the transaction: the slots that were fired are before it, and belong to the schedule as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, Outcome
from tests.conformance.tenant import Tenant, end_of

End = Callable[[Tenant, int, ClaimedJob], object]

INVALID = Outcome("failed", error="the command is gone", is_final=True, invalidates=True)


def settling(outcome: Outcome) -> End:
    return lambda runtime, asked_at, claimed: runtime.runtime.slots.settle(
        asked_at, [end_of(claimed, outcome)]
    )


def exchanging(runtime: Tenant, asked_at: int, claimed: ClaimedJob) -> object:
    return runtime.runtime.slots.exchange(asked_at, [end_of(claimed)], node=runtime.node, limit=0)


@pytest.mark.parametrize(
    ("fields", "end", "status"),
    [
        ({"total_repeats": 1}, settling(SUCCEEDED), "done"),
        ({"total_repeats": 1}, exchanging, "done"),
        ({}, settling(INVALID), "invalid"),
    ],
    ids=["repeats", "repeats, while it claims", "invalid"],
)
def test_a_schedule_ends_behind_the_slots_that_were_fired_while_its_last_run_waited_to_be_settled(
    runtime: Tenant, fields: dict[str, Any], end: End, status: str
) -> None:
    runtime.add("a", every="5s", if_running="allow", **fields)
    runtime.step()
    (claimed,) = runtime.claim()
    asked_at = runtime.now
    assert runtime.wait_and_step("5s") == 1
    end(runtime, asked_at, claimed)
    assert runtime.state("a").status == status
    assert runtime.check().faults == ()
