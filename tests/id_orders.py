"""Draws random ids in an order that `EVERWHEN_TEST_IDS` names, so that a test that depends on their order fails.

`ascending` and `descending` draw each id above or below all earlier ones; any number is the seed of a random order.
Processes that tests start draw their own.
"""

import os
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

ORDER = "EVERWHEN_TEST_IDS"
_DRAWS = 20  # bits: a process draws at most a million ids


@contextmanager
def ordered_ids() -> Iterator[None]:
    order = os.environ.get(ORDER)
    if not order:
        yield
        return
    draw = IdOrder(order)
    with (
        mock.patch.object(secrets, "randbits", draw.bits),
        mock.patch.object(secrets, "token_hex", lambda count=16: f"{draw.bits(8 * count):0{2 * count}x}"),
    ):
        yield


class IdOrder:
    """Each draw has the number of the draw in its first bits, and random ones behind them."""

    def __init__(self, order: str) -> None:
        self._order, self._count = order, 0
        self._random = random.Random(order)

    def bits(self, count: int) -> int:
        if self._order not in ("ascending", "descending") or count <= _DRAWS:
            return self._random.getrandbits(count)
        self._count += 1
        position = self._count if self._order == "ascending" else (1 << _DRAWS) - 1 - self._count
        return position << (count - _DRAWS) | random.getrandbits(count - _DRAWS)
