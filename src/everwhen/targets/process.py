"""Processes on the event loop: started without a shell, read while they run, ended with everything they started.

A run is over when its leader has ended and no process of its family holds its output any more. Processes that a
leader leaves behind in its group get a second to end by themselves, then SIGTERM, and five seconds later SIGKILL. A
daemon that has made its own session and closed the output is left alone. A run that is cancelled ends with its whole
family, daemons too.

Why not `asyncio.create_subprocess_exec`: before Python 3.12 it spends a thread on every process, it handles only the
leader, and it waits for ever on a pipe that a grandchild holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal, TypeVar

from everwhen.model import variables
from everwhen.model.instants import to_datetime
from everwhen.target import Run
from everwhen.targets.guardian import MARK, Family, Guardian
from everwhen.targets.reports import ReportFiles

GRACE = 5.0  # between SIGTERM and SIGKILL
LINGER = 1.0  # for processes that a leader leaves behind
KILL_ROUNDS = 50  # a family that forks faster than it is killed is given up in the end
FIRST_LOOK, LONGEST_LOOK = 0.005, 0.1
_PIECE = 64 * 1024

Stream = Literal["stdout", "stderr"]
Sink = Callable[[Stream, bytes], None]
T = TypeVar("T")


def _nowhere(_stream: Stream, _data: bytes) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program to start. `env` is the whole environment; without `stdin` standard input is empty."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    stdin: bytes | None = None
    is_stdout_whole: bool = False
    sink: Sink = _nowhere


class Processes:
    """The processes of one node: any number at a time; `kill` ends all of them at once.

    `grace` is the time between SIGTERM and SIGKILL; `linger` is the time for processes that a leader leaves behind. A
    guardian ends the running processes when this process is killed.
    """

    def __init__(
        self, *, grace: float = GRACE, linger: float = LINGER, guardian: Guardian | None = None
    ) -> None:
        self.grace, self.linger = grace, linger
        self.guardian = guardian or Guardian(is_absent=True)
        self.reports = ReportFiles()
        self._living: set[Process] = set()

    @property
    def count(self) -> int:
        return len(self._living)

    def start(self, launch: Launch) -> Process:
        """Start a program on the running loop; raise OSError or ValueError when that fails.

        Call `wait` in the same coroutine, without an await in between: if a task is cancelled before it waits,
        nothing ends the process that it started.
        """
        mark = secrets.token_hex(8)
        self.guardian.watch(mark)
        try:
            process = Process(launch, self, mark)
        except BaseException:
            self.guardian.forget(mark)
            raise
        self._living.add(process)
        return process

    def forget(self, process: Process) -> None:
        self._living.discard(process)
        self.guardian.forget(process.mark)

    def kill(self) -> None:
        """Send SIGKILL to every family, at once and from any thread, after a second request to stop."""
        for process in list(self._living):
            process.kill()


class Process:
    """One process with its family. Call `wait` once; cancelling that ends the family first."""

    def __init__(self, launch: Launch, among: Processes, mark: str) -> None:
        self.mark = mark
        self._loop = asyncio.get_running_loop()
        self._among = among
        self._popen = subprocess.Popen(
            list(launch.argv),
            cwd=launch.cwd,
            env={**launch.env, MARK: mark},
            stdin=subprocess.DEVNULL if launch.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._popen.pid
        self.was_lost = False  # ended by the guardian, because the node was frozen
        self.stdout, self.stderr = Captured(is_whole_wanted=launch.is_stdout_whole), Captured()
        self._family = Family(self.pid, mark)
        try:
            self._out = _Reader(self._popen.stdout, self._loop, _both(self.stdout, launch.sink, "stdout"))
            self._err = _Reader(self._popen.stderr, self._loop, _both(self.stderr, launch.sink, "stderr"))
            self._in = _Writer(self._popen.stdin, self._loop, launch.stdin or b"")
        except OSError as error:  # it runs, and nobody would read its output or wait for its end
            self.kill()
            self._popen.wait()
            raise ValueError(f"its output cannot be read: {error}") from None

    async def wait(self) -> int:
        """Wait until no process of the family is left to wait for; return its leader's exit code (< 0: a signal)."""
        try:
            await self._leader_ended()
            if not await self._ended_by_itself():
                await self._end()
        except asyncio.CancelledError:
            await self._end()
            raise
        finally:
            self.was_lost = self._among.guardian.has_ended(self.mark)
            self._close()
        return self._popen.returncode

    def kill(self) -> None:
        self._family.signal(signal.SIGKILL)

    async def _leader_ended(self) -> None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or an old one, or no descriptor left
            await self._leader_ended_in_thread()
            return
        ended = self._loop.create_future()
        self._loop.add_reader(pidfd, _resolve, ended)
        try:
            await ended
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._popen.wait()

    async def _leader_ended_in_thread(self) -> None:
        ended = self._loop.create_future()

        def wait() -> None:
            self._popen.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
                self._loop.call_soon_threadsafe(_resolve, ended)

        threading.Thread(target=wait, name=f"everwhen-wait-{self.pid}", daemon=True).start()
        await ended

    async def _ended_by_itself(self) -> bool:
        """Return whether the output has ended and the group is empty, soon after the leader's end."""
        deadline = self._loop.time() + self._among.linger
        await asyncio.wait((self._out.ended, self._err.ended), timeout=self._among.linger)
        if not (self._out.ended.done() and self._err.ended.done()):
            return False
        return not self._family.has_group() or await self._is_gone_by(deadline)

    async def _end(self) -> None:
        """Send SIGTERM to the family, and SIGKILL to the rest five seconds later; if cancelled again, at once."""
        try:
            await self._signal(signal.SIGTERM)
            if await self._is_gone_by(self._loop.time() + self._among.grace):
                return
        except asyncio.CancelledError:
            self.kill()
            raise
        for _ in range(KILL_ROUNDS):
            if not await self._signal(signal.SIGKILL):
                return
            await asyncio.sleep(FIRST_LOOK)

    async def _is_gone_by(self, deadline: float) -> bool:
        pause = FIRST_LOOK
        while await self._in_thread(self._family.members):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)
        return True

    async def _signal(self, number: signal.Signals) -> int:
        return await self._in_thread(lambda: self._family.signal(number))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(None, call)

    def _close(self) -> None:
        if self._popen.poll() is None:  # just killed, or in an uninterruptible system call
            threading.Thread(target=self._popen.wait, name=f"everwhen-wait-{self.pid}", daemon=True).start()
        for end in (self._out, self._err, self._in):
            end.close()
        self._among.forget(self)


class _Reader:
    """Reads a pipe whenever it has data, so that the process never blocks on a full pipe."""

    def __init__(
        self, pipe: IO[bytes] | None, loop: asyncio.AbstractEventLoop, feed: Callable[[bytes], None]
    ) -> None:
        assert pipe is not None
        self._pipe, self._loop, self._feed = pipe, loop, feed
        self.ended: asyncio.Future[None] = loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        loop.add_reader(pipe.fileno(), self._read)

    def _read(self) -> bool:
        """Read a piece; return whether there was one."""
        try:
            data = os.read(self._pipe.fileno(), _PIECE)
        except BlockingIOError:
            return False
        if data:
            self._feed(data)
        else:
            self._let_go()
        return bool(data)

    def close(self) -> None:
        """Read the data that is in the pipe already, then close it, even if a process holds the other end."""
        for _ in range(16):  # a full pipe and no more: a process that keeps writing is not waited for
            if self._pipe.closed or not self._read():
                break
        self._let_go()

    def _let_go(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        _resolve(self.ended)


class _Writer:
    """Writes standard input while the pipe has room. A process that does not read it is not an error."""

    def __init__(self, pipe: IO[bytes] | None, loop: asyncio.AbstractEventLoop, data: bytes) -> None:
        self._pipe, self._loop, self._left = pipe, loop, memoryview(data)
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            loop.add_writer(pipe.fileno(), self._write)

    def _write(self) -> None:
        assert self._pipe is not None
        try:
            self._left = self._left[os.write(self._pipe.fileno(), self._left) :]
        except BlockingIOError:
            return
        except OSError:  # EPIPE: it closed its end
            self._left = self._left[:0]
        if not self._left:
            self.close()

    def close(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()


def _both(captured: Captured, sink: Sink, stream: Stream) -> Callable[[bytes], None]:
    if sink is _nowhere:
        return captured.feed

    def feed(data: bytes) -> None:
        captured.feed(data)
        sink(stream, data)

    return feed


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


READ_LIMIT = 10 * 1024 * 1024
HEAD = 64 * 1024
TAIL = 192 * 1024


class Captured:
    """The first 64 KiB and the last 192 KiB of a stream, and if wanted the whole stream up to 10 MiB."""

    def __init__(self, *, is_whole_wanted: bool = False) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._whole = bytearray() if is_whole_wanted else None

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if self._whole is not None and self.total <= READ_LIMIT:
            self._whole += data
        head_left = HEAD - len(self._head)
        if head_left > 0:
            self._head += data[:head_left]
            data = data[head_left:]
        self._tail += data
        if len(self._tail) > 2 * TAIL:  # cut seldom: cutting moves the remaining bytes
            del self._tail[:-TAIL]

    @property
    def whole(self) -> bytes | None:
        """Return the whole output; None when it was too long, or not wanted."""
        return None if self._whole is None or self.total > READ_LIMIT else bytes(self._whole)

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """Return the last bytes, without those in `head`."""
        return bytes(self._tail[-TAIL:])

    def last(self, most: int) -> str:
        """Return the last bytes as text."""
        return (self.head + self.tail)[-most:].decode(errors="replace").strip()


SAFE_BASE = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")


def environment_of(run: Run, listed: Mapping[str, object] | None = None) -> dict[str, str]:
    """Build the environment of a run; other variables of this process may be secrets of other schedules."""
    listed = listed or {}
    return {**safe_base(), **{name: str(value) for name, value in listed.items()}, **about(run)}


def about(run: Run) -> dict[str, str]:
    """Return the run as variables."""
    return {
        variables.JOB_ID: run.job_id,
        variables.SCHEDULE_ID: run.schedule_id,
        variables.SCHEDULE_NAME: run.schedule_name,
        variables.SLOT_AT: to_datetime(run.slot_at).isoformat(),
        variables.ATTEMPT: str(run.attempt),
        variables.ORIGIN: run.origin,
        variables.IS_CATCH_UP: "true" if run.catch_up else "false",
        variables.REPEAT_NUMBER: str(run.repeat_number),
        variables.PAYLOAD: json.dumps(run.payload),
        variables.DEADLINE_AT: "" if run.deadline_at is None else to_datetime(run.deadline_at).isoformat(),
    }


def safe_base() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in SAFE_BASE or name.startswith("LC_")}
