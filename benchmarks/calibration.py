"""A fixed piece of plain Python, timed before each turn: a change means that the machine changed its speed."""

from time import perf_counter


def calibrate() -> float:
    """Return the seconds for some small integers, a dictionary and calls; this also wakes the processor."""
    began = perf_counter()
    seen: dict[int, int] = {}
    total = 0
    for number in range(20_000):
        key = number * 31 & 1023
        seen[key] = seen.get(key, 0) + 1
        total += divmod(number, 60)[1]
    return perf_counter() - began
