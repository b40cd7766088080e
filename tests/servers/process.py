"""A folder and a process for one server; both end at the latest with the process that created them.

This module owns starting, signalling and removing. The caller decides when a server is ready, and which signal it
understands.
"""

import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.account import Account
from tests.servers.errors import ServerError

# Reads the server's process id, one line per start and an empty one per stop. Its input ends when the owner closes it
# or dies, for example by SIGKILL or by a test worker's os._exit, neither of which runs an atexit handler.
#
# A process that is not reaped, as in a container whose first process is not an init, still answers `kill -0`.
_KEEPER = """
is_alive() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:.*Z' "/proc/$1/status"; }
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && kill -s "$1" "$pid" 2>/dev/null; then
  tries=0
  while is_alive "$pid" && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -s KILL "$pid" 2>/dev/null
fi
rm -rf -- "$2"
"""


class ServerFolder:
    """A folder with a short path, because a socket's path may have at most 107 characters, and its keeper process."""

    def __init__(self, account: Account, end_signal: signal.Signals) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="everwhen-", dir="/tmp"))
        account.take_over(self.path)
        # It keeps our stdout, so that a process that reads a dead run's output to its end also waits for it. A
        # separate session protects it from the terminal's Ctrl-C.
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", end_signal.name.removeprefix("SIG"), str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )

    def note_running(self, pid: int | None) -> None:
        """Tell the keeper which process to end if this process dies."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{pid or ''}\n".encode())
        self._keeper.stdin.flush()

    def remove(self) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()


class ServerProcess:
    """A server program and all its descendants, writing to a log."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        log: Path,
        account: Account,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        self._environment = {**plain_environment(), **(environment or {})}
        self._log_begins_at = log.stat().st_size if log.exists() else 0
        # Every descendant inherits the write end: the read end reaches its end when all are gone. Process groups
        # would not work, because each PostgreSQL backend leaves its postmaster's group.
        self._life, lifeline = os.pipe()
        try:
            self._popen = self._launch(command, folder=folder, account=account, lifeline=lifeline)
        except BaseException:
            os.close(self._life)
            raise
        finally:
            os.close(lifeline)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    @property
    def output(self) -> str:
        """Return what the server has logged since this start."""
        with self._log.open("rb") as log:
            log.seek(self._log_begins_at)
            return log.read().decode(errors="replace")

    def end(self, how: signal.Signals, *, patience_seconds: float) -> None:
        """Send a signal, and return when the server and all its descendants have ended."""
        self._popen.send_signal(how)
        try:
            self._popen.wait(patience_seconds)
            gone, _, _ = select.select([self._life], [], [], patience_seconds)
        except subprocess.TimeoutExpired:
            gone = []
        self._popen.kill()
        self._popen.wait()
        os.close(self._life)
        if not gone:
            raise ServerError(
                f"not gone {patience_seconds:g} s after {how.name}; its log ends:\n{self.output[-2000:]}"
            )

    def _launch(
        self, command: Sequence[str | Path], *, folder: Path, account: Account, lifeline: int
    ) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=self._environment,
                user=account.user,
                group=account.group,
                extra_groups=account.extra_groups,
                pass_fds=(lifeline,),
                start_new_session=True,
            )


def plain_environment() -> dict[str, str]:
    """Return our environment without the tester's PostgreSQL settings, and with messages in a known language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
