"""Processes with their families: input, output within bounds, endings that leave nobody behind."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from everwhen.targets.process import GRACE, Captured, Launch, Process, Processes
from tests.targets.running import is_alive, is_written, open_descriptors, pid_in, until, until_async

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
HEAD, TAIL, READ_LIMIT = 64 << 10, 192 << 10, 10 << 20  # as the contract says


def launch(*argv: str, stdin: bytes | None = None, whole: bool = False) -> Launch:
    return Launch(argv=argv, env=ENV, stdin=stdin, is_stdout_whole=whole)


def run(
    *argv: str, stdin: bytes | None = None, whole: bool = False, linger: float = 1.0
) -> tuple[int, Process]:
    async def whole_life() -> tuple[int, Process]:
        process = Processes(linger=linger).start(launch(*argv, stdin=stdin, whole=whole))
        return await process.wait(), process

    return asyncio.run(whole_life())


def python(code: str, *, stdin: bytes | None = None, whole: bool = False) -> tuple[int, Process]:
    return run(sys.executable, "-c", code, stdin=stdin, whole=whole)


NEVER = 3_600.0  # seconds until a process is killed: longer than a test may take


def cancel(*argv: str, when: Callable[[], bool], twice: bool = False, grace: float = GRACE) -> float:
    """Cancel a process as soon as something is true; how many seconds its end then took."""

    async def whole_life() -> float:
        async def start_and_wait() -> None:
            await Processes(grace=grace).start(launch(*argv)).wait()

        loop = asyncio.get_running_loop()
        task = loop.create_task(start_and_wait())
        await asyncio.sleep(0)
        await until_async(when)
        asked_at = loop.time()
        task.cancel()
        if twice:
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return loop.time() - asked_at

    return asyncio.run(whole_life())


# -- input and output --


def test_standard_input_arrives_whole_however_long() -> None:
    sent = b"x" * 1_000_000
    code, process = run("wc", "-c", stdin=sent)
    assert (code, process.stdout.last(100)) == (0, "1000000")


def test_without_input_there_is_nothing_to_read() -> None:
    assert run("cat")[0] == 0


def test_a_process_that_closes_its_input_at_once_is_no_error() -> None:
    code, process = run("sh", "-c", "exec <&-; echo done", stdin=b"x" * 10_000_000)
    assert (code, process.stdout.last(100)) == (0, "done")


def test_of_each_stream_the_first_and_the_last_bytes_are_kept() -> None:
    stream = Captured()
    for number in range(100):
        stream.feed(bytes([number]) * 10_000)
    everything = b"".join(bytes([number]) * 10_000 for number in range(100))
    assert stream.total == len(everything)
    assert stream.head == everything[:HEAD]
    assert stream.tail == everything[-TAIL:]
    assert stream.whole is None


def test_a_short_stream_is_kept_once() -> None:
    stream = Captured()
    stream.feed(b"a" * (HEAD - 1))
    stream.feed(b"bcd")
    assert stream.head + stream.tail == b"a" * (HEAD - 1) + b"bcd"
    assert stream.last(4) == "abcd"


def test_output_to_be_read_whole_is_whole_up_to_ten_mebibytes() -> None:
    _, process = python(f"print('x' * {READ_LIMIT - 1})", whole=True)
    assert len(process.stdout.whole or b"") == READ_LIMIT
    _, process = python(f"print('x' * {READ_LIMIT})", whole=True)
    assert process.stdout.whole is None
    assert process.stdout.total == READ_LIMIT + 1


def test_a_hundred_megabytes_of_output_take_little_memory() -> None:
    tracemalloc.start()
    code, process = run("head", "-c", "100000000", "/dev/zero")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, process.stdout.total) == (0, 100_000_000)
    assert most < 5_000_000


def test_one_that_writes_to_stderr_for_ever_is_ended_all_the_same(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    cancel("sh", "-c", f"touch {mark}; exec yes >&2", when=mark.exists, grace=NEVER)


# -- endings --


def test_an_end_by_signal_is_a_negative_code() -> None:
    assert run("sh", "-c", "kill -9 $$")[0] == -signal.SIGKILL


def test_a_leader_that_obeys_leaves_its_children_their_five_seconds(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    child = (
        f"trap 'sleep 0.5; echo tidied > {ended}; exit' TERM; echo $$ > {begun}; while :; do sleep 0.1; done"
    )
    cancel("sh", "-c", 'sh -c "$1" & exec sleep 60', "sh", child, when=lambda: is_written(begun), grace=NEVER)
    assert ended.read_text() == "tidied\n"
    assert not is_alive(pid_in(begun))


def test_a_child_that_forks_and_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    deaf = f"trap '' TERM; echo $$ > {mark}; while :; do sleep 0.1; done"
    seconds = cancel("sh", "-c", 'sh -c "$1" & wait', "sh", deaf, when=lambda: is_written(mark), grace=0.3)
    assert not is_alive(pid_in(mark))
    assert seconds >= 0.3


class Hurried(selectors.DefaultSelector):
    """Waits for a twentieth of the time that it is told to."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / 20)


class HurriedLoop(asyncio.SelectorEventLoop):
    """Its clock goes twenty times as fast as others."""

    def __init__(self) -> None:
        super().__init__(Hurried())

    def time(self) -> float:
        return super().time() * 20


def test_between_sigterm_and_sigkill_lie_five_seconds(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    deaf = f"trap '' TERM; echo $$ > {mark}; while :; do sleep 0.1; done"

    async def cancelled_after() -> float:
        task = asyncio.create_task(Processes().start(launch("sh", "-c", deaf)).wait())
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # it waits from here on
        await until_async(lambda: is_written(mark))
        asked_at = loop.time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 400)
        return loop.time() - asked_at

    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        assert 5 <= runner.run(cancelled_after()) < 200  # of a clock that counts slowness twenty times
    assert not is_alive(pid_in(mark))


def test_a_second_request_kills_it_at_once(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    deaf = f"trap '' TERM; echo $$ > {mark}; while :; do sleep 0.1; done"
    cancel("sh", "-c", deaf, when=lambda: is_written(mark), twice=True, grace=NEVER)
    pid = pid_in(mark)
    until(lambda: not is_alive(pid))


def test_a_cancel_reaches_a_daemon_in_a_session_of_its_own(tmp_path: Path) -> None:
    mark = tmp_path / "daemon"
    daemon = f"setsid sh -c 'echo $$ > {mark}; exec sleep 60' > /dev/null 2>&1 < /dev/null &"
    cancel("sh", "-c", f"{daemon} sleep 60", when=lambda: is_written(mark))
    assert not is_alive(pid_in(mark))


def test_what_a_leader_leaves_in_its_group_ends_soon_after_it(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    code, process = run("sh", "-c", f"sleep 60 & echo $! > {mark}; echo done; exit 3", linger=0.1)
    assert (code, process.stdout.last(100)) == (3, "done")
    assert not is_alive(pid_in(mark))


def test_a_child_that_holds_the_output_from_another_session_is_not_waited_for(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    before, threads = open_descriptors(), threading.active_count()
    code, _ = run("sh", "-c", f"setsid sh -c 'echo $$ > {mark}; exec sleep 60' & sleep 0.2", linger=0.1)
    assert code == 0
    assert not is_alive(pid_in(mark))
    assert (open_descriptors(), threading.active_count()) == (before, threads)


def test_a_daemon_that_has_let_go_of_everything_lives_on(tmp_path: Path) -> None:
    mark = tmp_path / "daemon"
    daemon = f"setsid sh -c 'echo $$ > {mark}; exec sleep 60' > /dev/null 2>&1 < /dev/null &"
    code, _ = run("sh", "-c", f"{daemon} while [ ! -s {mark} ]; do sleep 0.01; done")
    pid = pid_in(mark)
    assert code == 0
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_output_that_comes_after_the_leaders_end_is_still_read() -> None:
    code, process = run("sh", "-c", "(sleep 0.2; echo late) & exit 0")
    assert (code, process.stdout.last(100)) == (0, "late")


def test_every_process_of_a_node_can_be_killed_at_once(tmp_path: Path) -> None:
    async def whole_life() -> list[int]:
        processes = Processes()
        started = [processes.start(launch("sleep", "60")) for _ in range(3)]
        waits = [asyncio.ensure_future(process.wait()) for process in started]
        await asyncio.sleep(0)
        assert processes.count == 3
        threading.Thread(target=processes.kill).start()
        codes = await asyncio.gather(*waits)
        assert processes.count == 0
        return codes

    assert asyncio.run(whole_life()) == [-signal.SIGKILL] * 3


def test_without_descriptors_for_processes_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert run("sh", "-c", "sleep 0.1; exit 5")[0] == 5


def test_many_side_by_side_leave_no_descriptor_and_no_zombie() -> None:
    async def whole_life() -> list[Process]:
        processes = Processes()
        started = [processes.start(launch("sh", "-c", f"exit {number}")) for number in range(40)]
        codes = await asyncio.gather(*(process.wait() for process in started))
        assert codes == list(range(40))
        return started

    before = open_descriptors()
    ended = asyncio.run(whole_life())
    assert open_descriptors() == before
    for process in ended:
        with pytest.raises(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
