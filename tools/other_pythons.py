"""Prints the other Pythons of this machine that everwhen supports: one line each, its version, tests and path.

`other` means another minor version than the one that runs this; the newest path of each that can make an environment.
The oldest and the newest of all run every test (`suite`), those between a subset (`quick`): targets of make.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST, NEWEST = 11, 20
_PROBE = "import ensurepip, sys; print(*sys.version_info[:2], sys.executable)"


def main() -> None:
    own = sys.version_info.minor
    others = [minor for minor in range(OLDEST, NEWEST + 1) if minor != own]
    paths = {minor: path for minor in others if (path := python_of(minor)) is not None}
    for minor, target in targets_of([own, *paths]).items():
        if minor != own:
            print(f"3.{minor}", target, paths[minor])


def targets_of(minors: list[int]) -> dict[int, str]:
    """Which tests each version runs.

    >>> targets_of([11, 13, 12]), targets_of([13, 12, 11]), targets_of([11])
    ({11: 'suite', 13: 'suite', 12: 'quick'}, {13: 'suite', 12: 'quick', 11: 'suite'}, {11: 'suite'})
    """
    ends = (min(minors), max(minors))
    return {minor: "suite" if minor in ends else "quick" for minor in minors}


def python_of(minor: int) -> str | None:
    """The first that starts."""
    return next((found for path in _named(f"python3.{minor}") if (found := _started(path, minor))), None)


def _named(name: str) -> Iterator[Path]:
    """On the path; a shim of pyenv may refuse what lies beside it, so that is looked at, too."""
    for folder in map(Path, os.environ.get("PATH", "").split(os.pathsep)):
        versions = sorted(folder.parent.glob(f"versions/*/bin/{name}")) if folder.name == "shims" else []
        yield from (path for path in (*versions, folder / name) if os.access(path, os.X_OK))


def _started(path: Path, minor: int) -> str | None:
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    major, found, executable = done.stdout.split(maxsplit=2)
    return executable.strip() if (int(major), int(found)) == (3, minor) else None


if __name__ == "__main__":
    main()
