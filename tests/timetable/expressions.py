"""Random cron expressions of every field shape, drawn from a seed."""

from __future__ import annotations

import random

from everwhen import is_valid_cron_expression


def random_expression(draw: random.Random) -> str:
    """One that matches some day."""
    while True:
        text = any_expression(draw)
        if is_valid_cron_expression(text):
            return text


def any_expression(draw: random.Random) -> str:
    day = _term(draw, 1, 31) if draw.random() < 0.8 else draw.choice(["L", "LW", "L,5", "15,LW", "*/2"])
    weekday = _term(draw, 0, 7) if draw.random() < 0.7 else draw.choice(_WEEKDAYS)
    hour = draw.choice([_term(draw, 0, 23), "*", "2", "1-3", "0-23/2", "2,3", "0", "*/2"])
    month = draw.choice(["*", "*", "*", _term(draw, 1, 12), "MAR,oct", "jan-jun"])
    return " ".join([_term(draw, 0, 59), hour, day, month, weekday])


_WEEKDAYS = ["5L", "MON#2", "fri#5", "1-5", "SUN", "7", "0L", "3#1,5L", "mon-fri", "6-7", "*/2", "0,7"]


def _term(draw: random.Random, low: int, high: int) -> str:
    first, last = sorted((draw.randint(low, high), draw.randint(low, high)))
    step = draw.randint(1, high)
    return draw.choice(
        [
            "*",
            "*",
            str(first),
            str(first),
            f"{first}-{last}",
            f"{first},{last}",
            f"*/{step}",
            f"{first}/{step}",
            # A range of one value with a step: cronsim lets it run to the field's end (see decisions).
            f"{first}-{last}/{step}" if first < last else str(first),
        ]
    )
