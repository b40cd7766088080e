"""A package with kinds of targets, installed for one test: a module and its metadata in a folder of the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, kinds: Mapping[str, str]
) -> None:
    """Put `module` on the path with an entry point for each kind, which names an object of the module."""
    site = folder / f"site-{module}"
    info = site / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1\n")
    lines = [f"{kind} = {module}:{name}" for kind, name in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join(["[everwhen.targets]", *lines]))
    (site / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(site)
