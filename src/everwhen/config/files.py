"""The files of a configuration: the main file and its includes, each read, resolved and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG

from everwhen.config.document import Block, Document, Node
from everwhen.config.environment import resolved
from everwhen.config.problems import Place, Report
from everwhen.config.reread import read_again
from everwhen.config.schema import FILE, INCLUDED
from everwhen.config.yaml_text import MOST_BYTES
from everwhen.errors import ConfigError

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
        report.add(Place(str(path), 0), (), str(error))
        text = ""
    written = read_again(text, str(path), report, last)
    document = resolved(written, environ, report) if "${" in text else written
    return File(path, stamp, written, Node(document, (), document.root, report))


def _text(path: Path, is_included: bool) -> str:
    try:
        kind = path.stat().st_mode
        if S_ISDIR(kind):
            raise ConfigError("is a directory; name the files in it, as in include: [schedules.d/*.yaml]")
        # The user named the main file, which may be a pipe of a shell; a pattern may match anything.
        if not S_ISREG(kind) and (is_included or not S_ISFIFO(kind)):
            raise ConfigError("is no file, but a device, a pipe or a socket")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"is larger than {MOST_BYTES >> 20} MiB; split it with include")
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}; {_cure(error, is_included)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is no UTF-8 text (byte {error.start})") from error


def _cure(error: OSError, is_included: bool) -> str:
    if not isinstance(error, FileNotFoundError):
        return "give this user access"
    return "is it a link to nowhere?" if is_included else "name another with --config"


def stamp_of(path: Path) -> Stamp | None:
    """Return a stamp that differs when the content of a file differs; None when the file cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def directories_of(main: File) -> list[Path]:
    """Return the directories that contain files of the configuration, or may later: a watcher has to watch them."""
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
    return [path for path in paths if path.resolve() != main.path.resolve()]


def _glob(main: File, pattern: str) -> list[str]:
    # Not Path.glob: it matches hidden files, which editors leave behind, and refuses absolute patterns.
    return sorted(glob(pattern, root_dir=main.path.parent, recursive=True))  # noqa: PTH207
