"""Looks for the system packages that some tests want, and installs them where that was asked for.

Asked for means: `CI` or `EVERWHEN_INSTALL_BROWSER` is set, we are root, and apt-get exists; a test command
must not change a person's machine unasked. Otherwise one line on stderr says what will be skipped and how to
get it. The exit status is always 0: a missing package skips tests, it fails none.
"""

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ASKED_BY = ("CI", "EVERWHEN_INSTALL_BROWSER")
POLICY = Path("/usr/sbin/policy-rc.d")
UPDATE_SECONDS, INSTALL_SECONDS = 120, 300
APT_GET = ("apt-get", "-q", "-o", "Acquire::http::Timeout=20", "-o", "DPkg::Lock::Timeout=60")


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package, the files of which one shows that it is there, and the tests that want it."""

    name: str
    shown_by: tuple[str, ...]
    wanted_for: str


WANTED = (
    Package("cron", ("/usr/sbin/cron",), "the comparison with Debian's cron (tests/debian_cron)"),
    Package(
        "libfaketime",
        ("/usr/lib/*/faketime/libfaketime.so.1",),
        "the comparison with Debian's cron (tests/debian_cron)",
    ),
    Package(
        "chromium",
        ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"),
        "the dashboard in a browser (tests/browser)",
    ),
    Package(
        "fonts-liberation",
        ("/usr/share/fonts/truetype/liberation*",),
        "the dashboard in a browser (tests/browser)",
    ),
    Package("gcc", ("/usr/bin/cc", "/usr/local/bin/cc"), "clocks that are set (tests/proof)"),
    Package("libc6-dev", ("/usr/include/stdio.h",), "clocks that are set (tests/proof)"),
    Package(
        "iproute2",
        ("/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"),
        "machines that are cut off, disks that fill up (tests/proof)",
    ),
    Package("zsh", ("/usr/bin/zsh", "/bin/zsh"), "completion in zsh (tests/cli)"),
    Package("fish", ("/usr/bin/fish", "/bin/fish"), "completion in fish (tests/cli)"),
)


def main() -> int:
    absent = missing(WANTED)
    if absent and may_install(os.environ):
        install(absent)
        absent = missing(WANTED)
    if absent:
        print(notice(absent), file=sys.stderr)
    return 0


def missing(packages: Sequence[Package]) -> list[Package]:
    return [package for package in packages if not any(map(glob.glob, package.shown_by))]


def may_install(environment: Mapping[str, str]) -> bool:
    is_asked_for = any(environment.get(name, "").lower() not in ("", "0", "false") for name in ASKED_BY)
    return is_asked_for and os.geteuid() == 0 and shutil.which(APT_GET[0]) is not None


def notice(absent: Sequence[Package]) -> str:
    """One line, however much is missing."""
    names = " ".join(package.name for package in absent)
    tests = "; ".join(dict.fromkeys(package.wanted_for for package in absent))
    asked = " or ".join(f"{name}=1" for name in ASKED_BY)
    return f"SKIPPING {tests}: missing {names}. Get it: apt-get install {names}, or set {asked} as root."


def install(packages: Sequence[Package]) -> None:
    """Install them without starting any service; what goes wrong is printed, and the notice follows."""
    names = [package.name for package in packages]
    print(f"installing {' '.join(names)} …", file=sys.stderr)
    try:
        with _no_service_started():
            _apt_get("update", seconds=UPDATE_SECONDS)
            # Without recommendations: cron recommends a mail server.
            _apt_get("install", "--yes", "--no-install-recommends", *names, seconds=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as expired:
        print(f"gave up: {expired}", file=sys.stderr)
    except OSError as error:
        print(f"cannot install: {error}", file=sys.stderr)


@contextmanager
def _no_service_started() -> Iterator[None]:
    """Packages ask this file before they start their daemon; 101 forbids it. An administrator's own stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    try:
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink()


def _apt_get(*arguments: str, seconds: float) -> None:
    done = subprocess.run(
        [*APT_GET, *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        print(f"apt-get {arguments[0]} failed:\n{done.stdout[-2000:]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
