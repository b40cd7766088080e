"""The plan of the nemesis, drawn from a seed before it begins: the same seed gives the same faults in the same order.

Pure: it knows the names of what can be struck, and nothing about processes. The effects are not determined: the
kernel's scheduling is not seeded, and a victim that is slow to recover is given time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

Kind = Literal[
    "kill a scheduler",
    "kill a worker",
    "kill a starting scheduler",
    "kill a starting worker",
    "kill an API",
    "kill a starting API",
    "freeze an API",
    "kill a program",
    "freeze a program",
    "freeze a scheduler",
    "freeze a worker",
    "power off a machine",
    "cut a machine off",
    "step a machine's clock",
    "step the database's clock",
    "restart PostgreSQL",
    "kill PostgreSQL",
    "restart Valkey",
    "kill Valkey",
    "empty Valkey",
    "fill the disk",
]


class How(NamedTuple):
    """How one kind of fault is drawn: what it affects (`{}` is the machine's number), for how long, how far.

    `most`: on how many machines there is such a thing, from the first one on.
    """

    takes: tuple[str, ...]
    lasts: tuple[float, float]
    sizes: tuple[float, ...] = (0.0,)
    weight: float = 1.0
    most: int = 1_000


SERVING = 2  # machines with an API and a program

# A lease is three seconds in these worlds, and a silent connection is given up after ten: faults last less and more
# than either.
HOWS: Mapping[Kind, How] = {
    "kill a scheduler": How(("scheduler {}",), (0.1, 3.0), weight=2),
    "kill a worker": How(("worker {}",), (0.1, 5.0), weight=2),
    # Killed, started at once, and killed again while it starts.
    "kill a starting scheduler": How(("scheduler {}",), (0.05, 2.5)),
    "kill a starting worker": How(("worker {}",), (0.05, 2.5)),
    "kill an API": How(("api {}",), (0.1, 4.0), most=SERVING),
    "kill a starting API": How(("api {}",), (0.05, 2.5), weight=0.5, most=SERVING),
    "freeze an API": How(("api {}",), (0.3, 6.0), weight=0.5, most=SERVING),
    "kill a program": How(("program {}",), (0.1, 5.0), most=SERVING),
    "freeze a program": How(("program {}",), (0.3, 6.0), weight=0.5, most=SERVING),
    "freeze a scheduler": How(("scheduler {}",), (0.3, 6.0), weight=1.5),
    "freeze a worker": How(("worker {}",), (0.3, 6.0), weight=1.5),
    "power off a machine": How(("scheduler {}", "worker {}", "api {}", "program {}", "cable {}"), (0.5, 5.0)),
    "cut a machine off": How(("cable {}",), (0.5, 14.0), weight=1.5),
    "step a machine's clock": How(("clock {}",), (0.0, 0.0), (-3_600.0, -7.0, 5.0, 90.0, 86_400.0)),
    "step the database's clock": How(("the clock",), (0.0, 0.0), (-5.0, -2.5, 3.0, 8.0, 20.0), 0.6),
    "restart PostgreSQL": How(("postgres",), (0.0, 1.5)),
    "kill PostgreSQL": How(("postgres",), (0.0, 1.5)),
    "restart Valkey": How(("valkey",), (0.0, 2.0)),
    "kill Valkey": How(("valkey",), (0.0, 2.0)),
    "empty Valkey": How(("valkey",), (0.0, 0.0)),
    "fill the disk": How(("disk",), (0.5, 4.0), weight=2),
}


class Strike(NamedTuple):
    """One fault: when it begins, in seconds after the start, how long it lasts, on which machine, how far."""

    at: float
    kind: Kind
    machine: int
    lasts: float
    size: float

    def __str__(self) -> str:
        far = f", {self.size:+g} s" if self.size else ""
        return f"{self.kind} (machine {self.machine}, {self.lasts:.1f} s{far})"


def draw_plan(
    seed: int, kinds: Sequence[Kind], *, seconds: float, machines: int, every: float, longest: float = 60.0
) -> list[Strike]:
    """Draw faults for so many seconds: one of each kind first, in any order, then at random.

    Nothing is struck twice at once, and at most two faults last at a time: three machines out of three, cut off
    permanently, would show nothing.
    """
    draw = random.Random(seed)
    plan: list[Strike] = []
    free_at: dict[str, float] = {}
    at = 0.0
    for kind in chain(draw.sample(kinds, len(kinds)), _any_of(draw, kinds)):
        at += draw.uniform(0.4, 1.6) * every
        strike = _strike(draw, kind, at, machines, longest)
        taken = [name.format(strike.machine) for name in HOWS[kind].takes]
        begins = max([at, *(free_at.get(name, 0.0) for name in taken), _second_last_end(plan)])
        if begins + strike.lasts > seconds:
            return plan
        at = begins
        plan.append(strike._replace(at=begins))
        # A pause for what was struck: a node that is always killed while it starts shows nothing either.
        free_at |= dict.fromkeys(taken, begins + strike.lasts + every)
    return plan


def _any_of(draw: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    weights = [HOWS[kind].weight for kind in kinds]
    while True:
        yield draw.choices(kinds, weights)[0]


def _strike(draw: random.Random, kind: Kind, at: float, machines: int, longest: float) -> Strike:
    how = HOWS[kind]
    lasts = min(draw.uniform(*how.lasts), longest)
    machine = draw.randint(1, min(machines, how.most))
    return Strike(at, kind, machine, lasts, draw.choice(how.sizes))


def _second_last_end(plan: Sequence[Strike]) -> float:
    """Return when the second to last of the faults so far is over."""
    ends = sorted((strike.at + strike.lasts for strike in plan), reverse=True)
    return ends[1] if len(ends) > 1 else 0.0
