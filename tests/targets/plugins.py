"""Plugins for tests: real folders with a manifest and a real program, most of them a few lines of shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

GREETING = '#!/bin/sh\ncat >/dev/null\necho \'{"status": "ok", "result": "hello"}\'\n'


def a_manifest(**keys: Any) -> dict[str, Any]:
    """A whole manifest; what is None is left out."""
    manifest = {
        "manifest_spec": "ductile.plugin",
        "manifest_version": 1,
        "name": "withings",
        "version": "1.0.0",
        "protocol": 2,
        "entrypoint": "run.sh",
        "commands": [
            {"name": "poll", "type": "write", "idempotent": True, "retry_safe": True},
            {"name": "token_refresh", "type": "write", "retry_safe": False},
            {"name": "handle", "type": "write"},
            {"name": "health", "type": "read"},
        ],
        **keys,
    }
    return {key: value for key, value in manifest.items() if value is not None}


def put_plugin(
    directory: Path, *, program: str = GREETING, folder: str | None = None, mode: int = 0o755, **keys: Any
) -> Path:
    """Write a plugin's folder; the folder."""
    manifest = a_manifest(**keys)
    home = directory / (folder or manifest["name"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "manifest.yaml").write_text(yaml.safe_dump(manifest))
    (home / "run.sh").write_text(program)
    (home / "run.sh").chmod(mode)
    return home
