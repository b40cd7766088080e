"""The first ten minutes of a new user, from `init` to `reload`, as the terminal shows them.

What is printed is compared with `golden/first_ten_minutes.txt`, which is meant to be read: instants, ids, durations
and ports are replaced by what they are. Where a text is changed on purpose: set EVERWHEN_WRITE_GOLDEN=1, and read the
difference.
"""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen.clock import SystemClock
from everwhen.model.instants import HOUR
from tests.cli.test_up import lines_until

COMMAND = str(Path(sys.executable).parent / "everwhen")
GOLDEN = Path(__file__).parent / "golden" / "first_ten_minutes.txt"
SESSION = """
everwhen schedules list
everwhen schedules upcoming weekday-report --limit 2
everwhen why hello.greet | head -1
everwhen schedules pause weekday-report --note holidays
everwhen why weekday-report
everwhen schedules resume weekday-report
everwhen schedules trigger weekday-report
everwhen logs weekday-report
everwhen logs hello.greet
everwhen jobs list --schedule hello.greet
everwhen schedules create --id tea --name "Tea time" --cron "0 10 * * *" --run '{"command": ["echo", "tea"]}'
everwhen schedules show tea --json | head -3
everwhen why "Tea time"
everwhen why coffee
everwhen status
everwhen simulate --from 2026-12-01 --to 2026-12-08
everwhen config diff
sed -i 's/0 9 /0 8 /' everwhen.yaml
everwhen config diff
everwhen config reload
everwhen config diff
everwhen config check
everwhen db check
"""
# What differs from run to run, and what stands for it. The order matters.
MASKS = (
    (r"sched-[0-9a-f-]+?-n(\d+)-rc(\d+)", r"sched-UID-n\1-rc\2"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"app-[0-9a-f]{16}", "app-NODE"),
    (r"ew_[\w-]{20,}", "TOKEN"),
    (rf"by {re.escape(getpass.getuser())} since", "by USER since"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? UTC", "INSTANT"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)", "INSTANT"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) +\d{1,2} \w{3}( \d{4})? \d\d:\d\d:\d\d( UTC)?( \d{4})?", "INSTANT"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d{1,2} \d\d:\d\d:\d\d UTC \d{4}", "INSTANT"),
    (r"(\d+d \d+h|\d+d|\d+h \d+m|\d+h|\d+m \d+s|\d+m|\d+\.?\d*s)( ago)?(?=\W|$)", r"SPAN\2"),
    (r"\+\d\.\d{3}s|[+-]SPAN", "SKEW"),
    (r"[\d,.]+ GiB free \(\d+ %\)", "FREE"),
    (r"(?<![\d.])\d+\.\d+\.\d+(?![\d.:])", "VERSION"),
    (r"[█▒✗·]{60}", "TIMELINE"),
    (r"\nnext +\S+ in SPAN", "\nnext  SCHEDULE in SPAN"),
    (r"time number \d+", "time number N"),
    (r"event \d+:", "event N:"),
    (r"\d+ slots, \d+ jobs", "N slots, N jobs"),
    (r"─+", "───"),
    (r"[ \t]+(?=\n)", ""),
    (r"(?<=\S) {2,}", "  "),
)


# The report is at 9 o'clock, or 12 hours later where that is near: nothing of the file comes due during the test.
IS_NEAR = 5 <= SystemClock().now() // HOUR % 24 < 13
LATER = {"0 9 ": "0 21 ", "0 8 ": "0 20 ", "0 10 ": "0 22 "} if IS_NEAR else {}
AS_WRITTEN = {"0 20 ": "0 8 ", "0 21 ": "0 9 ", "0 22 ": "0 10 ", "21:00": "09:00", "22:00": "10:00"}


def replaced(text: str, words: Mapping[str, str]) -> str:
    for before, after in words.items():
        text = text.replace(before, after)
    return text


def masked(text: str) -> str:
    for pattern, meaning in MASKS:
        text = re.sub(pattern, meaning, text)
    return text


def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EVERWHEN_")}
    return {**kept, "PATH": f"{Path(COMMAND).parent}:{kept['PATH']}", "TZ": "UTC", "LANG": "C.UTF-8"}


def typed(line: str, folder: Path) -> str:
    """A line at the prompt, what it prints, and its exit code where that is not 0."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {replaced(line, LATER)}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    code = f"[exit code {done.returncode}]\n" if done.returncode else ""
    return f"$ {line}\n{done.stdout}{code}\n"


@contextmanager
def up(folder: Path, shown: list[str]) -> Iterator[None]:
    """`everwhen up` in a second terminal, whose first and last lines are shown."""
    with subprocess.Popen(
        [COMMAND, "up", "--port", "0"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines = lines_until(process.stdout, "succeeded  Hello", 1)
        head = [line for line in lines if "heartbeat" not in line and "hello.greet" not in line]
        jobs = sorted(re.sub(r"^\S+  ", "TIME  ", line) for line in lines if line not in head)
        shown.append(
            "".join(["$ everwhen up --port 0\n", *head, *(line for line in jobs if "greet" in line), "\n"])
        )
        yield
        process.send_signal(signal.SIGINT)
        rest = process.communicate()[0].splitlines(keepends=True)
        shown.append("".join(["^C\n", *(line for line in rest if line.startswith("stop"))]))
    assert process.returncode == 0


@pytest.mark.timeout(240)
def test_the_first_ten_minutes_read_as_they_are_written_down(tmp_path: Path) -> None:
    shown = [typed("everwhen init app", tmp_path)]
    folder = tmp_path / "app"
    # The file for the zone of the test, and without a schedule that fires while somebody reads.
    file = folder / "everwhen.yaml"
    ours = {"every: 30s": "every: 1h", "every: 10s": "every: 1h"}
    file.write_text(replaced(file.read_text(), {**ours, **LATER}))
    with up(folder, shown):
        shown += [typed(line, folder) for line in SESSION.strip().splitlines()]
    found = masked(replaced("".join(shown), AS_WRITTEN if IS_NEAR else {}))
    if os.environ.get("EVERWHEN_WRITE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
