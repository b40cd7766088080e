"""The length of the write-ahead log, determined by two short reads of the file itself.

The file size does not show it: SQLite starts again at the front of the file once all of it has been copied back into
the database, and does not shorten it (overwriting old frames costs a third less than appending, as fsync has no new
length to record). But each frame contains the salts of the generation that wrote it, and the file's header those of
the current one: where a frame's salts equal the header's, the log reaches at least that far. See
https://sqlite.org/fileformat2.html#walformat. Only the -wal file may be opened like this; closing a descriptor of the
database or its -shm file would drop the locks that SQLite holds on them.
"""

from __future__ import annotations

import os

_HEADER = 32
_FRAME_HEADER = 24
_NOT_OPEN = -1


class WalGauge:
    """A check whether the log has outgrown a size since the last checkpoint; never raises."""

    def __init__(self, database: str) -> None:
        self._path = database + "-wal"
        self._descriptor = _NOT_OPEN
        self._generation = b""
        self._folded_frames = 0

    def outgrows(self, size: int) -> bool:
        try:
            return self._outgrows(size)
        except OSError:  # for example no free descriptors: a checkpoint can wait until there are some
            return False

    def fold_seen(self, frames: int) -> None:
        """Record that a checkpoint ended with so many frames in the log.

        If a reader prevented it from emptying the log, the next attempt is worthwhile when the log has grown again,
        not after every write.
        """
        self._folded_frames = frames

    def close(self) -> None:
        if self._descriptor != _NOT_OPEN:
            os.close(self._descriptor)
            self._descriptor = _NOT_OPEN

    def _outgrows(self, size: int) -> bool:
        if self._descriptor == _NOT_OPEN:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        header = os.pread(self._descriptor, _HEADER, 0)
        salts = header[16:24]
        if salts != self._generation:
            self._generation, self._folded_frames = salts, 0
        frame_size = _FRAME_HEADER + int.from_bytes(header[8:12], "big")
        frame = self._folded_frames + size // frame_size
        found = os.pread(self._descriptor, 8, _HEADER + frame * frame_size + 8)
        return found == salts and len(found) == 8
