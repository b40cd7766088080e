"""Says in one sentence why the daemon cannot be run here, if it cannot."""

import os
import platform
import shutil
import subprocess

from tests.debian_cron.daemon import CLOCK_NANOSLEEP, CRON, asleep_for, children_of, find_libfaketime

NEEDED_COMMANDS = ("setpriv", "unshare", "mount")
OLDEST = "3.0pl1-152"  # older ones overlook a zone that moves without daylight saving
TRY_TO_ISOLATE = ("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run")


def why_not() -> str | None:
    """The first thing that is in the way, and how to get it; None when the daemon can be run."""
    if platform.system() != "Linux" or platform.machine() not in CLOCK_NANOSLEEP:
        return f"made for Linux on {' or '.join(CLOCK_NANOSLEEP)}, this is {platform.platform()}"
    if not CRON.exists():
        return f"{CRON} is missing: apt-get install cron"
    if find_libfaketime() is None:
        return "libfaketime.so.1 is missing: apt-get install libfaketime"
    if os.geteuid() != 0:
        return "only root may run the daemon in a mount namespace of its own"
    if missing := [command for command in NEEDED_COMMANDS if shutil.which(command) is None]:
        return f"{', '.join(missing)} not found: apt-get install util-linux mount"
    return _why_not_this_cron() or _why_not_isolated() or _why_not_watched()


def _why_not_this_cron() -> str | None:
    if shutil.which("dpkg-query") is None:
        return f"{CRON} is not Debian's"
    query = ("dpkg-query", "--show", "--showformat=${Version}", "cron")
    version = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    comparison = ("dpkg", "--compare-versions", version, "ge", OLDEST)
    if version and subprocess.run(comparison, check=False).returncode == 0:
        return None
    return f"the comparison is with cron {OLDEST} or newer, as in Debian 12; this is {version or 'another'}"


def _why_not_isolated() -> str | None:
    attempt = subprocess.run(TRY_TO_ISOLATE, capture_output=True, text=True, check=False)
    if attempt.returncode == 0:
        return None
    return f"this system lets us make no mount namespace (CAP_SYS_ADMIN): {attempt.stderr.strip()}"


def _why_not_watched() -> str | None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            asleep_for(sleeper.pid)
            children_of(sleeper.pid)
        except OSError as error:
            return f"this system does not let us watch a process of our own (CAP_SYS_PTRACE): {error}"
        finally:
            sleeper.kill()
    return None
