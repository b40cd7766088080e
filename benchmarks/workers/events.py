"""The events of B23: when each is due, and how late it began; the same for everwhen and its peer."""

from statistics import median

from benchmarks.workers.answering import Timings
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.sizes import Size

Events = dict[str, float]  # the instant in seconds since 1970, by name

ALONE, GROUPS = (200, 60, 2), (10, 3, 1)
APART_SECONDS = 0.05  # 200 over 10 s
OFFSET = 0.0137  # so that no event alone lies on a whole second
AT_ONCE = (20, 20, 2)
LEAD_SECONDS = 3


def events_of(now: float, size: Size) -> Events:
    """Return single events, none of them on a whole second, and then groups that are due at whole seconds."""
    first = int(now) + LEAD_SECONDS
    count = size.of(*ALONE)
    alone = {f"alone-{number}": first + OFFSET + number * APART_SECONDS for number in range(count)}
    then = int(first + count * APART_SECONDS) + 2
    groups = {
        f"group-{second}-{number}": float(then + second)
        for second in range(size.of(*GROUPS))
        for number in range(size.of(*AT_ONCE))
    }
    return {**alone, **groups}


def lags_by_case(events: Events, started: dict[str, float]) -> Timings:
    if missing := events.keys() - started.keys():
        raise AssertionError(f"{len(missing)} of {len(events)} functions were not called")
    found: Timings = {}
    for case, prefix in (("one at a time", "alone"), ("20 at once", "group")):
        lags = [started[name] - at for name, at in events.items() if name.startswith(prefix)]
        # A peer that begins before the instant has not gained anything.
        found[f"{case}, median"] = (max(median(lags), 1e-6), 1)
        found[f"{case}, p99"] = (max(percentile(lags, 99), 1e-6), 1)
    return found
