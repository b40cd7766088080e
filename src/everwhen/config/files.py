"""The files of a configuration: the main one and those that it includes, each read, resolved and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from everwhen.config.document import Block, Document
from everwhen.config.environment import resolved
from everwhen.config.node import Node
from everwhen.config.problems import Place, Report
from everwhen.config.reread import read_again
from everwhen.config.schema import FILE, INCLUDED

MOST_FILES = 1_000

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class File:
    """One file: as it is written, and with its references resolved."""

    path: Path
    stamp: Stamp | None
    written: Document
    node: Node


def read_files(
    path: Path, environ: Mapping[str, str], report: Report, last: Sequence[File] = ()
) -> list[File]:
    """The main file, then the included ones by name; what is wrong with their shape is reported.

    `last` are the files as they were read before: what did not change is shared with them.
    """
    before = {file.path: file.written for file in last}
    main = _read(path, environ, report, before.get(path))
    files = [main]
    if main.node.value is not None:
        FILE.check(main.node)
    for included in _included(main, report):
        file = _read(included, environ, report, before.get(included))
        if file.node.value is not None:
            INCLUDED.check(file.node)
        files.append(file)
    return files


def _read(path: Path, environ: Mapping[str, str], report: Report, last: Document | None) -> File:
    text = ""
    stamp = stamp_of(path)  # before it is read: a change meanwhile is seen later
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        cure = (
            "name another with --config" if isinstance(error, FileNotFoundError) else "give this user access"
        )
        report.add(Place(str(path), 0), (), f"cannot be read: {error.strerror}; {cure}")
    except UnicodeDecodeError as error:
        report.add(Place(str(path), 0), (), f"is no UTF-8 text (byte {error.start})")
    written = read_again(text, str(path), report, last)
    document = resolved(written, environ, report) if "${" in text else written
    return File(path, stamp, written, Node(document, (), document.root, report))


def stamp_of(path: Path) -> Stamp | None:
    """What tells one content of a file from another; None when it cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def directories_of(main: File) -> list[Path]:
    """Where files of the configuration are, or may come to be: what a watcher has to look at."""
    found = {main.path.parent.resolve()}
    for pattern in _patterns(main):
        directory = main.path.parent / pattern
        while has_magic(str(directory.parent)):
            directory = directory.parent
        if directory.parent.is_dir():
            found.add(directory.parent.resolve())
    return sorted(found)


def _patterns(main: File) -> list[str]:
    patterns = main.node.value.get("include") if isinstance(main.node.value, Block) else None
    return [pattern for pattern in patterns if isinstance(pattern, str)] if isinstance(patterns, list) else []


def _included(main: File, report: Report) -> list[Path]:
    found: dict[str, None] = {}
    for number, pattern in enumerate(_patterns(main)):
        # Not Path.glob: it takes hidden files, which editors leave behind, and refuses absolute patterns.
        names = sorted(glob(pattern, root_dir=main.path.parent, recursive=True))  # noqa: PTH207
        if not names and not has_magic(pattern):
            main.node.complain(f'there is no file "{pattern}"', "include", number)
        found.update(dict.fromkeys(names))
    if len(found) > MOST_FILES:
        main.node.complain(f"names {len(found):,} files; at most {MOST_FILES:,} are read", "include")
        return []
    paths = [main.path.parent / name for name in found]
    return [path for path in paths if path.resolve() != main.path.resolve()]
