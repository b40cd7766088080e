"""A manual clock and a scheduler that a test steps by hand, for tests of a program's own schedules.

>>> from everwhen.testing import manual_scheduler
>>> scheduler = manual_scheduler("2026-01-05T08:00:00Z")
>>> _ = scheduler.add("report", cron="0 9 * * 1-5")
>>> scheduler.advance("1d2h")
>>> [f"{job.slot:%a %H:%M} {job.status}" for job in scheduler.jobs("report")]
['Mon 09:00 succeeded', 'Tue 09:00 succeeded']
"""

from everwhen.model.cost import parse_cost
from everwhen.model.outcome import Outcome
from everwhen.testing.manual import ManualClock, ManualJob, ManualScheduler, manual_scheduler

__all__ = ["ManualClock", "ManualJob", "ManualScheduler", "Outcome", "manual_scheduler", "parse_cost"]
