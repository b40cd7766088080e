"""How each kind of fault is injected and undone. Both work in whatever state the other left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.proof.plan import Kind, Strike
from tests.proof.processes import Supervised
from tests.proof.worlds import Machine, World

Heal = Callable[[], None]
Inflict = Callable[[World, Strike], Heal]


def inflict(world: World, strike: Strike) -> Heal:
    """Inject the fault and return the function that undoes it."""
    return _WAYS[strike.kind](world, strike)


def _machine(world: World, strike: Strike) -> Machine:
    return world.machines[strike.machine - 1]


def _worker(world: World, strike: Strike) -> Supervised:
    workers = _machine(world, strike).workers
    return workers[int(strike.lasts * 1_000) % len(workers)]  # any deterministic choice will do


def _api(world: World, strike: Strike) -> Supervised:
    api = _machine(world, strike).api
    assert api is not None
    return api


def _program(world: World, strike: Strike) -> Supervised:
    program = _machine(world, strike).program
    assert program is not None
    return program


def _kill(process: Supervised) -> Heal:
    process.kill()
    return process.revive


def _kill_at_start(process: Supervised) -> Heal:
    """Kill the process, start it at once, and kill it again wherever its start has got to."""
    process.kill()
    process.revive()

    def kill_again() -> None:
        process.kill()
        process.revive()

    return kill_again


def _freeze(process: Supervised) -> Heal:
    process.signal(signal.SIGSTOP)
    return lambda: process.signal(signal.SIGCONT)


def _power_off(world: World, strike: Strike) -> Heal:
    """Stop everything at once, so that no packet announces the end to the servers."""
    machine = _machine(world, strike)
    if machine.cable is not None:
        machine.cable.pull()
    for process in machine.processes:
        process.kill(with_children=True)

    def power_on() -> None:
        if machine.cable is not None:
            machine.cable.plug()
        for process in machine.processes:
            process.revive()

    return power_on


def _cut_off(world: World, strike: Strike) -> Heal:
    cable = _machine(world, strike).cable
    assert cable is not None
    cable.pull()
    return cable.plug


def _step_machine(world: World, strike: Strike) -> Heal:
    clock = _machine(world, strike).clock
    clock.step(strike.size - clock.seconds)  # relative to the true time, whatever the offset was before
    return _nothing


def _step_database(world: World, strike: Strike) -> Heal:
    with world.hands:  # we use the same clock, and other threads read it
        world.clock.step(strike.size)
    return _nothing


def _restart_postgres(world: World, strike: Strike) -> Heal:
    assert world.postgres is not None
    world.postgres.stop()
    return world.postgres.start


def _kill_postgres(world: World, strike: Strike) -> Heal:
    assert world.postgres is not None
    world.postgres.kill()
    return world.postgres.start


def _restart_valkey(world: World, strike: Strike) -> Heal:
    assert world.valkey is not None
    world.valkey.stop()
    return world.valkey.start


def _kill_valkey(world: World, strike: Strike) -> Heal:
    assert world.valkey is not None
    world.valkey.kill()
    return world.valkey.start


def _empty_valkey(world: World, strike: Strike) -> Heal:
    """Delete every message, as when the server comes back without its data."""
    assert world.valkey is not None
    world.valkey.flush()
    return _nothing


def _fill_disk(world: World, strike: Strike) -> Heal:
    """Fill the disk to the last byte: the next writer gets "no space left"."""
    assert world.disk is not None
    filler = world.disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (65_536, 4_096, 1):
            with suppress(OSError):
                while os.write(descriptor, b"\0" * size):
                    pass
    finally:
        os.close(descriptor)
    return lambda: filler.unlink(missing_ok=True)


def _nothing() -> None:
    """Undo nothing: a clock that was set stays so."""


_WAYS: Mapping[Kind, Inflict] = {
    "kill a scheduler": lambda world, strike: _kill(_machine(world, strike).scheduler),
    "kill a worker": lambda world, strike: _kill(_worker(world, strike)),
    "kill a starting scheduler": lambda world, strike: _kill_at_start(_machine(world, strike).scheduler),
    "kill a starting worker": lambda world, strike: _kill_at_start(_worker(world, strike)),
    "kill an API": lambda world, strike: _kill(_api(world, strike)),
    "kill a starting API": lambda world, strike: _kill_at_start(_api(world, strike)),
    "freeze an API": lambda world, strike: _freeze(_api(world, strike)),
    "kill a program": lambda world, strike: _kill(_program(world, strike)),
    "freeze a program": lambda world, strike: _freeze(_program(world, strike)),
    "freeze a scheduler": lambda world, strike: _freeze(_machine(world, strike).scheduler),
    "freeze a worker": lambda world, strike: _freeze(_worker(world, strike)),
    "power off a machine": _power_off,
    "cut a machine off": _cut_off,
    "step a machine's clock": _step_machine,
    "step the database's clock": _step_database,
    "restart PostgreSQL": _restart_postgres,
    "kill PostgreSQL": _kill_postgres,
    "restart Valkey": _restart_valkey,
    "kill Valkey": _kill_valkey,
    "empty Valkey": _empty_valkey,
    "fill the disk": _fill_disk,
}
