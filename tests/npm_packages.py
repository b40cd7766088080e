"""Pinned packages of npm, installed once into the environment of the tests, where another run finds them."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def npm_modules(*packages: str) -> Path:
    """Return the folder of these packages; skip, with the reason, where npm is missing or cannot install them."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: apt-get install npm")
    folder = Path(sys.prefix) / "-".join(package.replace("@", "-") for package in packages)
    modules, complete = folder / "node_modules", folder / ".complete"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of pytest may want the same
        if not complete.exists():
            install = ["npm", "install", "--silent", "--no-package-lock", "--fetch-retries=0"]
            command = [*install, "--prefix", str(folder), *packages]
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=110)
            if done.returncode:
                why = done.stderr.strip()[-200:] or "it does not say why"
                pytest.skip(f"npm cannot install {', '.join(packages)}: {why}")
            complete.touch()
    return modules
