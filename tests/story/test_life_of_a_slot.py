"""The life of a slot, from a line of words to an entry in the ledger; read it from top to bottom."""

from __future__ import annotations

from everwhen.model.outcome import Outcome
from everwhen.operations.upcoming import upcoming
from everwhen.operations.why import why
from everwhen.testing import manual_scheduler


def test_the_life_of_a_slot() -> None:
    # It is Monday morning in Sydney, and somebody wants a report on weekdays at nine.
    scheduler = manual_scheduler("2026-01-04T21:30:00Z")  # 08:30 in Sydney
    scheduler.add(
        "report",
        cron="0 9 * * 1-5",
        timezone="Australia/Sydney",
        max_retries=2,
        retry_delay="5m",
    )

    # The slot is known before it comes, exactly.
    (slot, *_) = upcoming(scheduler.runtime, "report", 1)
    assert scheduler.state("report").next_slot_at == slot.slot_at

    # At nine it fires: one job, one commit, and the row already shows Tuesday.
    scheduler.advance("30m", work=False)
    (job,) = scheduler.jobs("report")
    assert (job.slot_at, job.origin, job.status) == (slot.slot_at, "schedule", "queued")
    assert scheduler.state("report").next_run_at == slot.slot_at + 24 * 3_600_000_000

    # A worker takes it. The first attempt fails, and a further job of the same slot waits five minutes.
    (claimed,) = scheduler.claim()
    scheduler.settle(claimed, Outcome("failed", error="the printer is on fire"))
    first, retry = scheduler.jobs("report")
    assert (first.status, retry.origin, retry.status) == ("failed", "retry", "queued")
    assert "waits for its retry" in why(scheduler.runtime, "report").sentence

    # The process dies and another one goes on; nothing was in memory that matters.
    scheduler.restart()
    scheduler.advance("5m")
    assert [job.status for job in scheduler.jobs("report")] == ["failed", "succeeded"]
    assert scheduler.state("report").current_retry == 0

    # Tuesday nine o'clock finds nobody: the machine is off until noon.
    scheduler.run_until("2026-01-05T20:00:00Z")
    scheduler.sleep("5h")
    scheduler.restart()
    scheduler.step()
    assert "was missed: no scheduler was running then" in why(scheduler.runtime, "report").sentence

    # Every slot has exactly one entry.
    assert scheduler.check().is_clean
