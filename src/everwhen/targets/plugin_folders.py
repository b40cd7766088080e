"""Plugins on disk: `DIR/NAME/manifest.yaml`, read on demand and read again when the file has changed.

The folder defines the plugin at every moment: a command that was removed from the manifest since the configuration
was loaded is gone for the next run. Links are followed, and must not lead out: the folder must be in one of the
directories, its manifest and its program in the folder. A user who can write there runs programs as this service.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from everwhen.errors import ManifestError
from everwhen.model.host_fault import host_fault_of
from everwhen.model.plugin import Manifest, Plugin, parse_manifest

MANIFEST = "manifest.yaml"
LARGEST_MANIFEST = 1024 * 1024

_Print = tuple[int, int, int, int]  # identifies a file and its version


class PluginFolders:
    """The plugins in some directories; of two with the same name, the one in the first directory is used."""

    def __init__(self, directories: Iterable[str | Path]) -> None:
        self._directories = [Path(directory) for directory in directories]
        self._seen: dict[Path, tuple[_Print, Manifest]] = {}

    def find(self, name: str) -> Plugin | None:
        for folder in self._folders():
            # Most plugins are in a folder of their own name; that folder is checked before all are read.
            if folder.name == name and self._manifest(folder).name == name:
                return self._plugin(folder)
        return next((self._plugin(f) for f in self._folders() if self._name_of(f) == name), None)

    def _folders(self) -> list[Path]:
        return [
            folder
            for directory in self._directories
            if directory.is_dir()
            for folder in sorted(directory.iterdir())
            if (folder / MANIFEST).is_file()
        ]

    def _name_of(self, folder: Path) -> str | None:
        try:
            return self._manifest(folder).name
        except ManifestError as error:
            if host_fault_of(error) is not None:  # it may be the plugin that is looked for
                raise
            return None  # a broken plugin must not affect the search for another

    def _plugin(self, folder: Path) -> Plugin:
        manifest = self._manifest(folder)
        entrypoint, problem = _entrypoint(folder, manifest.entrypoint)
        if problem is not None:
            raise ManifestError(str(folder / MANIFEST), [problem])
        places = (folder.parent, folder, folder / MANIFEST, entrypoint)
        warnings = tuple(warning for place in places if (warning := _warning_of(place)) is not None)
        return Plugin(manifest, str(folder.resolve()), str(entrypoint), warnings)

    def _refuse_way_out(self, folder: Path) -> None:
        home = folder.resolve()
        if not any(home.is_relative_to(directory.resolve()) for directory in self._directories):
            problem = f"its folder is a link out of plugin_dirs, to {home}; name {home.parent} in plugin_dirs as well"
            raise ManifestError(str(folder / MANIFEST), [problem])
        manifest = (folder / MANIFEST).resolve()
        if not manifest.is_relative_to(home):
            problem = f"is a link out of the plugin's folder, to {manifest}"
            raise ManifestError(str(folder / MANIFEST), [problem])

    def _manifest(self, folder: Path) -> Manifest:
        self._refuse_way_out(folder)
        path = folder / MANIFEST
        try:
            found = path.stat()
            version = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            known = self._seen.get(path)
            if known is None or known[0] != version:
                known = self._seen[path] = (version, parse_manifest(_document(path), str(path)))
        except OSError as error:
            raise ManifestError(str(path), [f"cannot be read: {error.strerror}"]) from error
        return known[1]


def _document(path: Path) -> Any:
    import yaml

    with path.open("rb") as file:
        text = file.read(LARGEST_MANIFEST + 1)
    if len(text) > LARGEST_MANIFEST:
        raise ManifestError(str(path), [f"is larger than {LARGEST_MANIFEST} bytes"])
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(str(path), [f"is not valid YAML: {error}"]) from error


def _warning_of(path: Path) -> str | None:
    """Warn if users other than the owner may write there. A group with the owner's own number is a private one."""
    found = path.stat()
    if found.st_mode & stat.S_IWOTH:
        who = "every user of this machine"
    elif found.st_mode & stat.S_IWGRP and found.st_gid not in (0, found.st_uid):
        who = f"the group {found.st_gid}"
    else:
        return None
    return f"{who} may write to {path}, and so run programs as this service; chmod go-w it"


def _entrypoint(folder: Path, entrypoint: str) -> tuple[Path, str | None]:
    """Return the program, and what is wrong with it."""
    program = (folder / entrypoint).resolve()
    problem = None
    if not program.is_relative_to(folder.resolve()):
        problem = f"leads out of the plugin's folder, to {program}"
    elif not program.exists():
        problem = "is not there"
    elif not program.is_file():
        problem = "is not a file"
    elif not os.access(program, os.X_OK):
        problem = "is not executable; chmod +x it"
    return program, None if problem is None else f'entrypoint "{entrypoint}" {problem}'
