"""The way of something through a package: files and functions entered, and changes from one package to another.

`sys.setprofile` sees the calls of Python functions of each thread that began after `watch`. What imports run, and
functions without a name, count as nothing.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

UNNAMED = frozenset(("<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"))


class Way:
    """What was entered of a package; `changes` are counted thread by thread, each beginning with its first package."""

    def __init__(self, package_file: str) -> None:
        self.root = os.path.dirname(os.path.abspath(package_file)) + os.sep  # noqa: PTH100, PTH120  # once a call
        self.files: set[str] = set()
        self.functions: set[tuple[str, str]] = set()
        self.changes = 0
        self.is_noting = False
        self.latest: dict[int, str] = {}

    def watch(self) -> None:
        """Begin with this thread, and with those that it starts from now on; nothing is noted yet."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def rest(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    @contextmanager
    def noting(self) -> Iterator[None]:
        self.files, self.functions, self.changes, self.latest = set(), set(), 0, {}
        self.is_noting = True
        try:
            yield
        finally:
            self.is_noting = False

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not self.is_noting or event != "call":
            return
        code = frame.f_code
        if code.co_name in UNNAMED or not code.co_filename.startswith(self.root):
            return
        file = code.co_filename[len(self.root) :]
        self.files.add(file)
        self.functions.add((file, code.co_qualname))
        package, thread = file.partition(os.sep)[0], threading.get_ident()
        if self.latest.get(thread) != package:
            self.latest[thread] = package
            self.changes += 1

    @property
    def amounts(self) -> dict[str, float]:
        return {
            "files": len(self.files),
            "functions": len(self.functions),
            "changes of package": self.changes,
        }
