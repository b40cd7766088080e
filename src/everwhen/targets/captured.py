"""The part of a stream that is kept: its first and its last bytes, so that memory is bounded."""

from __future__ import annotations

READ_LIMIT = 10 * 1024 * 1024
HEAD = 64 * 1024
TAIL = 192 * 1024


class Captured:
    """The first 64 KiB and the last 192 KiB of a stream, and if wanted the whole stream up to 10 MiB."""

    def __init__(self, *, is_whole_wanted: bool = False) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._whole = bytearray() if is_whole_wanted else None

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if self._whole is not None and self.total <= READ_LIMIT:
            self._whole += data
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * TAIL:  # cut seldom: cutting moves the remaining bytes
            del self._tail[:-TAIL]

    @property
    def whole(self) -> bytes | None:
        """Return the whole output; None when it was too long, or not wanted."""
        return None if self._whole is None or self.total > READ_LIMIT else bytes(self._whole)

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes, without those in `head`."""
        return bytes(self._tail[-TAIL:])

    def last(self, most: int) -> str:
        """Return the last bytes as text."""
        return (self.head + self.tail)[-most:].decode(errors="replace").strip()
