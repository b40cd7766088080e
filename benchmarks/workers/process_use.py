"""What a process of this machine has used: CPU, voluntary switches, memory; read from /proc, all of its threads."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Use(NamedTuple):
    cpu_seconds: float
    switches: int
    megabytes: float


def use_of(process: int) -> Use:
    """Return its use until now, and its memory at this moment."""
    cpu = sum(int(text.split()[0]) for text in of_threads(process, "schedstat"))
    switches = sum(int(field(text, "voluntary_ctxt_switches")) for text in of_threads(process, "status"))
    status = Path(f"/proc/{process}/status").read_text()
    return Use(cpu / 1e9, switches, int(field(status, "VmRSS").split()[0]) / 1_024)


def of_threads(process: int, name: str) -> Iterator[str]:
    for folder in Path(f"/proc/{process}/task").iterdir():
        try:
            yield (folder / name).read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has just ended


def field(text: str, name: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    return line.partition(":")[2].strip()
