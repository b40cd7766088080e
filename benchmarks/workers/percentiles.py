"""Percentiles of a list, by nearest rank."""

from collections.abc import Sequence


def percentile(values: Sequence[float], rank: float) -> float:
    """Return the smallest value that so many percent of the values do not exceed.

    >>> percentile([5, 1, 2, 3, 4], 50), percentile(range(1, 101), 99)
    (3, 99)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * rank // 100) - 1)]
