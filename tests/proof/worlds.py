"""A world to strike: machines with a scheduler and a worker each, some with an API and a program that listens, and the
servers that they share.

This module owns creation and removal, and keeps the wanted processes running as a supervisor would. The nemesis
decides what happens to the world, the verdict what it should have done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from everwhen.model.instants import to_datetime
from everwhen.wiring import Stack, open_stack
from tests.crash.witness import install_witness
from tests.proof.apart import command, is_apart, mount_memory
from tests.proof.clocks import ClockOf, SettableClock, compiler
from tests.proof.network import SUBNET, SWITCH_ADDRESS, Cable, lay_switch
from tests.proof.plan import HOWS, SERVING, Kind
from tests.proof.processes import ROOT, Supervised
from tests.proof.program import READY as LISTENING
from tests.proof.receiver import Receiver, a_receiver
from tests.proof.schedules import LEASE, configuration, submissions
from tests.proof.work import SHELL
from tests.servers.ports import LOOPBACK, HeldPort
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer
from tests.submissions import create_schedules

WorldKind = Literal["postgres", "rq", "sqlite"]
WORLDS: tuple[WorldKind, ...] = ("postgres", "rq", "sqlite")
TITLES: Mapping[str, str] = {
    "postgres": "PostgreSQL with fsync, local workers",
    "rq": "PostgreSQL with fsync, RQ on Valkey",
    "sqlite": "SQLite, a scheduler and a worker on one file",
}

BIN = Path(sys.executable).parent
READY = "Ctrl-C stops"
DISK = "24m"
API_PORT = 8750  # of a machine that has its own network
RQ_SLOWER = 6  # RQ forks a process for every job, and each opens the database anew


@dataclass
class Machine:
    """What fails together: a clock, a cable, a scheduler, workers; on some an API and a program that listens."""

    number: int
    clock: SettableClock
    scheduler: Supervised
    workers: list[Supervised]
    cable: Cable | None = None
    api: Supervised | None = None
    program: Supervised | None = None
    api_address: str | None = None

    @property
    def processes(self) -> list[Supervised]:
        return [self.scheduler, *self.workers, *filter(None, (self.api, self.program))]

    def processes_named(self, name: str) -> list[Supervised]:
        """Return those that a fault takes, by the name in its kind, such as `worker {}`."""
        return [process for process in self.processes if process.name.startswith(name.partition(" ")[0])]


@dataclass
class World:
    """Everything that a fault can strike, and the connections for the users and the verdict."""

    kind: WorldKind
    folder: Path
    url: str
    seconds: float
    clock: SettableClock  # the clock by which slots are fired
    stack: Stack
    receiver: Receiver
    machines: list[Machine] = field(default_factory=list)
    postgres: PostgresServer | None = None
    valkey: ValkeyServer | None = None
    disk: Path | None = None
    fields: dict[str, Any] = field(default_factory=dict)  # of the configuration file
    hands: threading.Lock = field(
        default_factory=threading.Lock
    )  # one user action, or one clock step, at a time

    @property
    def title(self) -> str:
        return TITLES[self.kind]

    @property
    def slower(self) -> int:
        """By how much the intervals are multiplied here."""
        return 1 if self.valkey is None else RQ_SLOWER

    @property
    def processes(self) -> list[Supervised]:
        return [process for machine in self.machines for process in machine.processes]

    @property
    def api_addresses(self) -> list[str]:
        return [machine.api_address for machine in self.machines if machine.api_address is not None]

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def supervise(self) -> None:
        for process in self.processes:
            process.supervise()

    def now(self) -> datetime:
        return to_datetime(self.stack.runtime.clock.now())

    def write_file(self) -> None:
        """Write the configuration file, which every scheduler reads; by rename, as an editor does."""
        beside = self.folder / "everwhen.yaml.new"
        beside.write_text(json.dumps(self.fields, indent=1))
        beside.rename(self.folder / "everwhen.yaml")

    def faults(self) -> tuple[list[Kind], dict[Kind, str]]:
        """Return the kinds of fault that this world and this machine allow, and why the others are not exercised."""
        refused = {kind: why for kind in HOWS if (why := self._refusal(kind)) is not None}
        return [kind for kind in HOWS if kind not in refused], refused

    def _refusal(self, kind: Kind) -> str | None:
        takes = HOWS[kind].takes
        if "valkey" in takes and self.valkey is None:
            return "no Valkey in this world"
        if "postgres" in takes and self.postgres is None:
            return "no PostgreSQL in this world"
        if "disk" in takes and self.disk is None:
            return "no small disk in this world" if is_apart() else "needs root and `unshare`"
        if kind == "cut a machine off" and self.machines[0].cable is None:
            return (
                "one machine, nothing to cut it off from" if is_apart() else "needs root, `unshare` and `ip`"
            )
        if "clock" in kind and compiler() is None:
            return "needs a C compiler (cc)"
        if kind == "step a machine's clock" and self.clock is self.machines[0].clock:
            return "the machine's clock is the database's clock here"
        return None


@contextmanager
def a_world(kind: WorldKind, *, machines: int, seconds: float) -> Iterator[World]:
    """Provide a running world; whatever happens to it, nothing of it is left."""
    with ExitStack() as ending:
        folder = Path(tempfile.mkdtemp(prefix="everwhen-proof-"))
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        (folder / "runs").mkdir()
        (folder / "work.sh").write_text(SHELL)
        if kind == "sqlite":
            world = _on_sqlite(ending, folder, seconds)
        else:
            world = _on_postgres(ending, kind, folder, machines, seconds)
        service = {"dispatch": "local" if world.valkey is None else "rq"}
        world.fields = configuration(
            world.now(), folder, seconds, service=service, slower=world.slower, outside=world.receiver.url
        )
        world.write_file()
        create_schedules(world.stack.runtime, submissions(world.slower))
        ending.callback(_kill_all, world)
        yield world


def _on_postgres(ending: ExitStack, kind: WorldKind, folder: Path, machines: int, seconds: float) -> World:
    clock = SettableClock(folder / "clock-of-postgres")
    also_on = None
    if is_apart():
        lay_switch()
        also_on = (SWITCH_ADDRESS, SUBNET)
    server = PostgresServer(18, durable=True, also_on=also_on, environment=clock.environment())
    ending.enter_context(server)
    url = server.fresh_database()
    stack = open_stack(url)
    ending.callback(stack.close)
    install_witness(url)
    receiver = ending.enter_context(a_receiver(SWITCH_ADDRESS if is_apart() else LOOPBACK, folder / "runs"))
    world = World(kind, folder, url, seconds, clock, stack, receiver, postgres=server)
    if kind == "rq":
        world.valkey = ValkeyServer(durable=True, also_on=SWITCH_ADDRESS if is_apart() else None)
        ending.enter_context(world.valkey)
    for number in range(1, machines + 1):
        cable = Cable(number) if is_apart() else None
        if cable is not None:
            ending.callback(cable.close)
        its_clock = SettableClock(folder / f"clock-{number}")
        world.machines.append(_machine(ending, world, number, its_clock, cable))
    return world


def _on_sqlite(ending: ExitStack, folder: Path, seconds: float) -> World:
    """Create two processes on one file, because SQLite serves one machine."""
    disk = folder / "disk"
    disk.mkdir()
    if is_apart():
        mount_memory(disk, DISK)
        ending.callback(command, "umount", "--lazy", str(disk))
    url = f"sqlite:///{disk}/everwhen.db"
    clock = SettableClock(folder / "clock-1")
    stack = open_stack(url, clock=ClockOf(clock))
    ending.callback(stack.close)
    receiver = ending.enter_context(a_receiver(LOOPBACK, folder / "runs"))
    small = disk if is_apart() else None
    world = World("sqlite", folder, url, seconds, clock, stack, receiver, disk=small)
    world.machines.append(_machine(ending, world, 1, clock, None))
    return world


def _machine(
    ending: ExitStack, world: World, number: int, clock: SettableClock, cable: Cable | None
) -> Machine:
    file = str(world.folder / "everwhen.yaml")

    def node(name: str, fields: list[str], ready: str, *, may_end: bool = False) -> Supervised:
        return Supervised(
            name=name,
            command=fields if cable is None else cable.inside(fields),
            environment=_environment(world, name, clock),
            log=world.folder / f"{name.replace(' ', '-')}.log",
            ready=ready,
            may_end=may_end,
        )

    scheduler = node(f"scheduler {number}", [str(BIN / "everwhen"), "scheduler", "--config", file], READY)
    if world.valkey is None:
        workers = [node(f"worker {number}", [str(BIN / "everwhen"), "worker", "--config", file], READY)]
    else:
        rq = [str(BIN / "rq"), "worker", "-c", "everwhen.queue_workers.rq", "default"]
        names = [f"worker {number}{letter}" for letter in "ab"]
        workers = [node(name, rq, "Listening on", may_end=True) for name in names]
    machine = Machine(number, clock, scheduler, workers, cable)
    if number <= SERVING:
        host, port = _api_address(ending, cable)
        machine.api_address = f"{host}:{port}"
        api = [str(BIN / "everwhen"), "api", "--config", file, "--host", host, "--port", str(port)]
        machine.api = node(f"api {number}", api, READY)
        program = [sys.executable, "-m", "tests.proof.program", str(LEASE)]
        machine.program = node(f"program {number}", program, LISTENING)
    return machine


def _api_address(ending: ExitStack, cable: Cable | None) -> tuple[str, int]:
    if cable is not None:
        return cable.address, API_PORT
    port = HeldPort()
    ending.callback(port.release)
    return LOOPBACK, port.number


def _environment(world: World, name: str, clock: SettableClock) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    broker = {} if world.valkey is None else {"EVERWHEN_REDIS": _seen_from_machines(world.valkey.url)}
    return {
        **kept,
        **clock.environment(),
        **broker,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "EVERWHEN_CONFIG": str(world.folder / "everwhen.yaml"),
        "EVERWHEN_DATABASE": _seen_from_machines(world.url),
        "EVERWHEN_PROOF_RUNS": str(world.runs),
        "EVERWHEN_PROOF_NODE": name,
    }


def _seen_from_machines(url: str) -> str:
    return url.replace("127.0.0.1", SWITCH_ADDRESS) if is_apart() else url


def _kill_all(world: World) -> None:
    for process in world.processes:
        process.kill()
