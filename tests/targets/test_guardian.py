"""What becomes of a node's processes when the node is killed: a real guardian, real families, real SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.targets.guardian import Guardian
from everwhen.targets.guardian_process import Watch, since_boot
from tests.targets.running import is_alive, open_descriptors, pid_in, until

ROOT = Path(__file__).parents[2]

NODE = """
import asyncio, os, pathlib, signal, sys
from everwhen.targets.guardian import Guardian
from everwhen.targets.process import Launch, Processes

async def main():
    guardian = Guardian(grace=1)
    processes = Processes(guardian=guardian, linger=0.1)
    env = {"PATH": os.environ["PATH"]}
    finished, *running = [Launch(argv=["sh", "-c", script], env=env) for script in sys.argv[1:]]
    await processes.start(finished).wait()
    started = [processes.start(launch) for launch in running]
    if fork_in := os.environ.get("FORK_IN"):
        if os.fork() == 0:
            pathlib.Path(fork_in).write_text(f"{os.getpid()}\\n")
            signal.pause()
    print(guardian.pid, flush=True)
    await asyncio.gather(*(process.wait() for process in started))

asyncio.run(main())
"""


class Node:
    """A process that has finished one run and is in the midst of others."""

    def __init__(self, *scripts: str, **environment: str) -> None:
        command, env = [sys.executable, "-c", NODE, *scripts], {**os.environ, **environment}
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.guardian = int(self.process.stdout.readline())
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Where scripts leave their process ids; nobody of them survives the test."""
    yield tmp_path
    for file in tmp_path.iterdir():
        if is_alive(pid_in(file)):
            os.kill(pid_in(file), signal.SIGKILL)


def test_a_killed_node_leaves_nobody_running_but_daemons_of_runs_that_were_over(pids: Path) -> None:
    let_go = "> /dev/null 2>&1 < /dev/null"
    over = f"setsid sh -c 'echo $$ > {pids}/over; exec sleep 60' {let_go} & while [ ! -s {pids}/over ]; do :; done"
    family = (
        f"echo $$ > {pids}/leader; sleep 60 & echo $! > {pids}/child; "
        f"setsid sh -c 'echo $$ > {pids}/daemon; exec sleep 60' {let_go} & wait"
    )
    deaf = f"trap '' TERM; echo $$ > {pids}/deaf; while :; do sleep 0.1; done"
    node = Node(over, family, deaf, f"sh -c 'echo $$ > {pids}/second; exec sleep 60'")
    found = {name: pid_in(pids / name) for name in ("over", "leader", "child", "daemon", "deaf", "second")}
    assert [name for name, pid in found.items() if not is_alive(pid)] == []
    node.kill()
    obedient = [found[name] for name in ("leader", "child", "daemon", "second")]
    until(lambda: not any(map(is_alive, obedient)))
    until(lambda: not is_alive(found["deaf"]))
    until(lambda: not is_alive(node.guardian))
    assert is_alive(found["over"])


def test_somebody_whom_the_node_has_forked_does_not_keep_its_runs_alive(pids: Path) -> None:
    node = Node("true", f"echo $$ > {pids}/run; exec sleep 60", FORK_IN=f"{pids}/forked")
    run, forked = pid_in(pids / "run"), pid_in(pids / "forked")
    node.kill()
    until(lambda: not is_alive(run))
    assert is_alive(forked)


def test_a_guardian_is_deaf_to_signals_and_is_replaced_when_it_is_killed(pids: Path) -> None:
    guardian = Guardian()
    guardian.watch("one")
    first = guardian.pid
    assert first is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(first, number)
    guardian.watch("two")
    assert (guardian.pid, is_alive(first)) == (first, True)
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_alive(first))
    guardian.forget("two")
    second = guardian.pid
    assert second is not None and second != first and is_alive(second)
    guardian.forget("one")
    guardian.close()
    assert not is_alive(second)


def test_one_that_is_killed_is_replaced_by_a_greeting() -> None:
    guardian = Guardian()
    guardian.greet(60, 5)
    assert [guardian.pid] == [None]  # nobody runs: there is nothing to guard
    guardian.watch("one")
    first = guardian.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_alive(first))
    guardian.greet(60, 5)
    assert guardian.pid not in (None, first)
    guardian.forget("one")
    guardian.close()


@pytest.mark.parametrize(
    ("greetings", "ended"),
    [
        ([(0, 10), (7, 17), (14, 1_000)], []),  # in time, though nobody read them until now
        ([(0, 10), (7, 17), (18, 1_000)], ["one"]),  # frozen over the end of its lease, and awake again
    ],
)
def test_a_guardian_that_wakes_up_late_ends_what_its_node_did_not_keep_alive(
    greetings: list[tuple[int, int]], ended: list[str]
) -> None:
    """When each greeting was written, and until when it is good, in seconds since some time ago."""
    begin = since_boot() - 100
    (channel, lines), (answers, said) = os.pipe(), os.pipe()
    text = "".join(f"={begin + until:.2f} {begin + at:.2f} 2\n" for at, until in greetings)
    os.write(lines, f"+one {begin:.2f}\n{text}".encode())
    os.close(lines)
    Watch(os.getppid(), channel, answers=said).last()
    os.close(said)
    assert os.read(answers, 1_000).decode().split() == ended
    os.close(answers)
    os.close(channel)


def test_one_that_is_stopped_holds_nobody_up() -> None:
    guardian = Guardian()
    guardian.watch("one")
    first = guardian.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    for number in range(10_000):  # more than a pipe holds
        guardian.watch(str(number))
        guardian.forget(str(number))
    assert guardian.pid != first
    assert not is_alive(first)
    guardian.forget("one")
    guardian.close()


def test_nothing_is_left_of_it() -> None:
    before = open_descriptors()
    guardian = Guardian()
    guardian.close()
    guardian.watch("one")
    guardian.close()  # somebody runs: it stays
    pid = guardian.pid
    assert pid is not None and is_alive(pid)
    guardian.forget("one")
    guardian.close()
    assert (guardian.pid, is_alive(pid)) == (None, False)
    assert open_descriptors() == before
