"""The files of a configuration: the main file and its includes, each read, resolved and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG
from typing import Any

from everwhen.config.document import Block, Document, DocumentNode, Items, Plain
from everwhen.config.problems import Location, Report
from everwhen.config.problems import Path as KeyPath
from everwhen.config.reread import read_again
from everwhen.config.schema import FILE, INCLUDED
from everwhen.config.yaml_text import MOST_BYTES, core_value
from everwhen.errors import ConfigError

MOST_FILES = 1_000

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class File:
    """One file: as it is written, and with its references resolved."""

    path: Path
    stamp: Stamp | None
    written: Document
    node: DocumentNode


def read_files(
    path: Path, environ: Mapping[str, str], report: Report, last: Sequence[File] = ()
) -> list[File]:
    """Read the main file, then the included ones by name; report what is wrong with their shape.

    `last` are the files of the last reading: what did not change is shared with them.
    """
    before = {file.path: file.written for file in last}
    main = _read(path, environ, report, before.get(path))
    files = [main]
    if main.node.value is not None:
        FILE.check(main.node)
    for included in _included(main):
        file = _read(included, environ, report, before.get(included), is_included=True)
        if file.node.value is not None:
            INCLUDED.check(file.node)
        files.append(file)
    return files


def _read(
    path: Path,
    environ: Mapping[str, str],
    report: Report,
    last: Document | None,
    *,
    is_included: bool = False,
) -> File:
    stamp = stamp_of(path)  # before it is read: a change during the read is noticed later
    try:
        text = _text(path, is_included)
    except ConfigError as error:
        report.add(Location(str(path), 0), (), str(error))
        text = ""
    written = read_again(text, str(path), report, last)
    document = resolved(written, environ, report) if "${" in text else written
    return File(path, stamp, written, document.node(report))


def _text(path: Path, is_included: bool) -> str:
    try:
        if S_ISDIR(path.stat().st_mode):
            raise ConfigError("is a directory; name the files in it, as in include: [schedules.d/*.yaml]")
        return read_text(path, is_included=is_included)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}; {_cure(error, is_included)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start})") from error


def read_text(path: Path, *, is_included: bool) -> str:
    """Return the text of a file of bounded size; raise ConfigError for a device, or for a pipe that a file names."""
    kind = path.stat().st_mode
    # The user named the main file, which may be a pipe of a shell; another file may name anything.
    if not S_ISREG(kind) and (is_included or not S_ISFIFO(kind)):
        raise ConfigError("is not a file, but a device, a pipe or a socket")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"is larger than {MOST_BYTES >> 20} MiB; split it with include")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


def _cure(error: OSError, is_included: bool) -> str:
    if not isinstance(error, FileNotFoundError):
        return "give this user access"
    return (
        "is it a link to nowhere?"
        if is_included
        else "name another with --config, or `everwhen init` writes one"
    )


def stamp_of(path: Path) -> Stamp | None:
    """Return a stamp that differs when the content of a file differs; None when the file cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def directories_of(main: File) -> list[Path]:
    """Return the directories that contain files of the configuration, or may later: a watcher has to watch them."""
    found = {real_path(main.path.parent)}
    for pattern in _patterns(main):
        directory = main.path.parent / pattern
        while has_magic(str(directory.parent)):
            directory = directory.parent
        if directory.parent.is_dir():
            found.add(real_path(directory.parent))
    return sorted(found)


def _patterns(main: File) -> list[str]:
    patterns = main.node.value.get("include") if isinstance(main.node.value, Block) else None
    return [pattern for pattern in patterns if isinstance(pattern, str)] if isinstance(patterns, list) else []


def stamps_now(main: File) -> dict[Path, Stamp | None]:
    """Return the stamp of each file that would be read now: a watcher compares them with those that were read."""
    return {path: stamp_of(path) for path in (main.path, *_matching(main))}


def _included(main: File) -> list[Path]:
    for number, pattern in enumerate(_patterns(main)):
        if not has_magic(pattern) and not _glob(main, pattern):
            main.node.complain(f'there is no file "{pattern}"', "include", number)
    found = _matching(main)
    if len(found) <= MOST_FILES:
        return found
    main.node.complain(f"names {len(found):,} files; at most {MOST_FILES:,} are read", "include")
    return []


def _matching(main: File) -> list[Path]:
    """Return the files that `include` names, each once, and never the main file."""
    names = dict.fromkeys(name for pattern in _patterns(main) for name in _glob(main, pattern))
    paths = [main.path.parent / name for name in names]
    return [path for path in paths if real_path(path) != real_path(main.path)]


def real_path(path: Path) -> Path:
    """Return the file behind a path; of a link that leads to itself, a path that cannot be read. `Path.resolve` raises
    for such a link, before Python 3.13."""
    return Path(os.path.realpath(path))


def _glob(main: File, pattern: str) -> list[str]:
    # Not Path.glob: it matches hidden files, which editors leave behind, and refuses absolute patterns.
    return sorted(glob(pattern, root_dir=main.path.parent, recursive=True))  # noqa: PTH207


# References to the environment, `${NAME}` and `${NAME:-default}`: resolved at load, or kept as they are written.
#
# What jobs get (`run`, `config`, headers, `env`, `secret`), `ping` and `notify` keep their references, so that the
# database, responses, diffs and logs never contain the value; the worker resolves them. `$${NAME}` is the literal text.


_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KEPT: tuple[KeyPath, ...] = (
    ("notify",),
    ("schedules", "*", "run"),
    ("schedules", "*", "ping"),
    ("workflows", "*", "run"),
    ("plugins", "*", "config"),
    ("agents", "*", "env"),
    ("agents", "*", "schedules", "*", "secret"),
    ("agents", "*", "schedules", "*", "work_source", "env"),
    ("messages", "subscribers", "*", "http", "headers"),
)


def resolved(document: Document, environ: Mapping[str, str], report: Report) -> Document:
    """Return the document with its references resolved, except those that are kept."""
    return Document(document.file, _Resolver(document, environ, report).value(document.root, ()))


def is_kept(path: KeyPath) -> bool:
    return any(
        len(path) == len(kept) and all(want in ("*", step) for want, step in zip(kept, path, strict=True))
        for kept in _KEPT
    )


def references_in(value: Any, path: KeyPath) -> list[KeyPath]:
    """Return the paths at which a value refers to the environment."""
    if isinstance(value, str):
        # Only up to the last brace: no reference can end after it, and every `${` after it would be scanned in vain.
        found = _REFERENCE.finditer(value, 0, value.rfind("}") + 1)
        return [path] if any(not one[1] for one in found) else []
    if isinstance(value, Block):
        return [found for key, item in value.items() for found in references_in(item, (*path, key))]
    if isinstance(value, Items):
        return [found for number, item in enumerate(value) for found in references_in(item, (*path, number))]
    return []


class _Resolver:
    def __init__(self, document: Document, environ: Mapping[str, str], report: Report) -> None:
        self._document = document
        self._environ = environ
        self._report = report

    def value(self, value: Any, path: KeyPath) -> Any:
        if is_kept(path):
            return value
        if isinstance(value, Block):
            found = {key: self.value(item, (*path, key)) for key, item in value.items()}
            if all(found[key] is item for key, item in value.items()):
                return value  # perhaps shared with the last reading
            block = Block()
            block.spots = value.spots
            block.update(found)
            return block
        if isinstance(value, Items):
            each = [self.value(item, (*path, number)) for number, item in enumerate(value)]
            if all(new is old for new, old in zip(each, value, strict=True)):
                return value
            items = Items()
            items.spots, items.moved = value.spots, value.moved
            items.extend(each)
            return items
        if isinstance(value, str) and "${" in value:
            text = _REFERENCE.sub(lambda found: self._found(found, path), value)
            return core_value(text) if isinstance(value, Plain) else text
        return value

    def _found(self, reference: re.Match[str], path: KeyPath) -> str:
        escaped, name, default = reference.groups()
        if escaped:
            return reference[0][1:]
        if found := self._environ.get(name):
            return found
        if default is not None:
            return str(default)
        message = f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        self._report.add(self._document.place(path), path, message)
        return ""
