"""The cost of a check interval: CPU of an idle `everwhen up` by interval and number of schedules (row H29).

Run manually, `python -m benchmarks.check_interval`; the table goes to standard output, and into the operations guide.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INTERVALS = ("1s", "5s", "10s")
SIZES = (50, 10_000)
SECONDS = 10.0
SETTLE = 4.0


def main() -> None:
    print("| check_interval | " + " | ".join(f"{size:,} schedules" for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for interval in INTERVALS:
        shares = [cpu_share(interval, size) for size in SIZES]
        print(f"| {interval} | " + " | ".join(f"{share:.2%}" for share in shares) + " |", flush=True)


def cpu_share(interval: str, size: int) -> float:
    """Return the share of one core that an idle service uses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "everwhen.yaml")
        path.write_text(configuration(folder, interval, size))
        command = [sys.executable, "-m", "everwhen", "up", "--config", str(path)]
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "EVERWHEN_API_PORT": "0"},
        ) as node:
            try:
                assert node.stderr is not None
                while "Ctrl-C" not in node.stderr.readline():
                    assert node.poll() is None, "everwhen ended by itself"
                time.sleep(SETTLE)
                before, began = cpu_seconds(node.pid), time.monotonic()
                time.sleep(SECONDS)
                return (cpu_seconds(node.pid) - before) / (time.monotonic() - began)
            finally:
                node.terminate()
                node.communicate(timeout=30)


def configuration(folder: str, interval: str, size: int) -> str:
    schedules = "\n".join(
        f"  - {{id: idle-{n}, cron: '0 0 1 1 *', run: {{command: ['true']}}}}" for n in range(size)
    )
    return (
        f"service: {{database: 'sqlite:///{folder}/idle.db', check_interval: {interval}}}\n"
        f"schedules:\n{schedules}\n"
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
