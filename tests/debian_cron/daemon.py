"""Runs Debian's own cron daemon through a faked stretch of time and says what it ran, and when.

The daemon gets private copies of all that it reads and writes (a mount namespace) and a clock that stands
still until it is moved to the next minute. The clock moves only when the daemon sleeps, waiting for just that
minute, and all its jobs are over. So real time decides nothing, and a slow machine gets the same answer as a
fast one. A daemon that does not settle is an error, never a shorter answer.
"""

import os
import platform
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

CRON = Path("/usr/sbin/cron")
CLOCK_NANOSLEEP = {"x86_64": 230, "aarch64": 115}  # the number of the system call, by machine
MINUTE = 60
PATIENCE = 60.0  # seconds of real time for one faked minute, which takes about a millisecond
PAUSE = 0.0002  # seconds of real time between two looks at the daemon

# PAM is set aside because pam_loginuid lets nobody run a job inside many containers; /run holds the daemon's
# pid file and the journal's socket, /dev/shm what libfaketime would leave behind when its process is killed.
ISOLATE = """
set -eu
cover() { [ ! -e "$2" ] || mount --bind "$1" "$2"; }
cover "$1/spool" /var/spool/cron
cover "$1/empty.d" /etc/cron.d
cover "$1/empty" /etc/crontab
cover "$1/pam" /etc/pam.d/cron
cover "$1/shm" /dev/shm
mount -t tmpfs none /run
cover /dev/null /dev/log
exec env -i "PATH=$PATH" "TZDIR=$2" "TZ=$3" "LD_PRELOAD=$4" "FAKETIME_TIMESTAMP_FILE=$1/clock" \\
  FAKETIME_FMT=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 "$5" -f -L 0
"""

PAM_RULES = ("auth", "account", "session")


class DaemonError(Exception):
    """The daemon ended, or never went back to sleep."""


def run_cron(entries: Sequence[str], zone: str, start: datetime, end: datetime) -> list[tuple[str, datetime]]:
    """What the daemon ran after `start`, up to and including `end`: (entry, minute), in order of time.

    An entry that was run twice in a minute is there twice. Both instants are whole minutes.
    """
    with tempfile.TemporaryDirectory(prefix="everwhen-cron-") as name:
        home = Path(name)
        with _started_daemon(home, _crontab(entries, home / "ran"), zone, start) as daemon:
            return list(_runs(daemon, home, entries=entries, minutes=_minutes(start, end)))


def run_crontab(text: str) -> None:
    """Let the daemon run every entry of a crontab that fires each minute, once."""
    start = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
    with tempfile.TemporaryDirectory(prefix="everwhen-cron-") as name:
        home = Path(name)
        with _started_daemon(home, text, "UTC", start) as daemon:
            for minute in _minutes(start, start + timedelta(minutes=1)):
                _set_clock(home, minute)
                _wait_until_idle(daemon, minute)


def find_libfaketime() -> Path | None:
    """The preloaded library; its folder is named after the machine."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


def asleep_for(pid: int) -> int | None:
    """The whole seconds for which the process asked to sleep, or None while it does something else."""
    try:
        call, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
        if call != str(CLOCK_NANOSLEEP[platform.machine()]):
            return None
        return _read_long(pid, address=int(arguments[2], 16))
    except ProcessLookupError:
        return None


def children_of(pid: int) -> list[str]:
    """Its children, also those that ended and were not yet waited for."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def _furnish(home: Path, text: str) -> None:
    for folder in ("spool/crontabs", "empty.d", "shm"):
        (home / folder).mkdir(parents=True)
    for file in ("empty", "ran"):
        (home / file).touch()
    (home / "pam").write_text("".join(f"{rule} required pam_permit.so\n" for rule in PAM_RULES))
    crontab = home / "spool/crontabs/root"
    crontab.write_text(text)
    crontab.chmod(0o600)


def _crontab(entries: Sequence[str], ran: Path) -> str:
    """A job leaves its number; the minute is the one at which the clock stands while it runs."""
    jobs = (f"{entry} echo {number} >> {ran}\n" for number, entry in enumerate(entries))
    return 'MAILTO=""\n' + "".join(jobs)


@contextmanager
def _started_daemon(
    home: Path, crontab: str, zone: str, start: datetime
) -> Iterator[subprocess.Popen[bytes]]:
    _furnish(home, crontab)
    _set_clock(home, start)
    # The zones of the tzdata package: the system may have none, or older ones than the engine reads.
    arguments = [home, files("tzdata") / "zoneinfo", zone, find_libfaketime(), CRON]
    # Every step replaces itself by the next, so the process started here is the daemon; it dies with us.
    isolated = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", ISOLATE, "sh"]
    with (home / "errors").open("wb") as errors:
        daemon = subprocess.Popen(
            [*isolated, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
        )
    try:
        _wait_until_idle(daemon, start)
        yield daemon
    except DaemonError as error:
        error.add_note((home / "errors").read_text())
        raise
    finally:
        daemon.kill()
        daemon.wait()


def _minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    instant = start.astimezone(UTC)
    while instant < end:
        instant += timedelta(minutes=1)
        yield instant


def _runs(
    daemon: subprocess.Popen[bytes], home: Path, *, entries: Sequence[str], minutes: Iterator[datetime]
) -> Iterator[tuple[str, datetime]]:
    with (home / "ran").open() as ran:
        for minute in minutes:
            _set_clock(home, minute)
            _wait_until_idle(daemon, minute)
            yield from sorted((entries[int(number)], minute) for number in ran)


def _set_clock(home: Path, minute: datetime) -> None:
    prepared = home / "clock.next"
    prepared.write_text(f"{int(minute.timestamp()) + _second(minute)}\n")
    prepared.replace(home / "clock")  # the daemon reads the file at any moment: never half of it


def _second(minute: datetime) -> int:
    """Odd minutes stand at second 1, so the daemon asks for another sleep than in the minute before."""
    return int(minute.timestamp()) // MINUTE % 2


def _wait_until_idle(daemon: subprocess.Popen[bytes], minute: datetime) -> None:
    """Return when the daemon has done all its work of this minute and sleeps until the next.

    It sleeps to one second past the next minute, so the length of its sleep says which minute it has seen. In
    any other sleep (for the minute that is now over, or the ten seconds between two swallowed readings) it
    is woken as by a child that ended: it then looks at the clock again.
    """
    until_next_minute = MINUTE + 1 - _second(minute)
    deadline = time.monotonic() + PATIENCE
    while daemon.poll() is None and time.monotonic() < deadline:
        asleep, jobs = asleep_for(daemon.pid), children_of(daemon.pid)
        if asleep == until_next_minute and not jobs:
            return
        if asleep is not None and asleep != until_next_minute and not jobs:
            os.kill(daemon.pid, signal.SIGCHLD)
        time.sleep(PAUSE)
    raise DaemonError(f"{CRON} did not settle at {minute}: exit status {daemon.poll()}")


def _read_long(pid: int, *, address: int) -> int | None:
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            (seconds,) = struct.unpack("q", memory.read(struct.calcsize("q")))
    except PermissionError:
        raise
    except OSError:
        return None  # it woke meanwhile and the page is gone
    return int(seconds)
