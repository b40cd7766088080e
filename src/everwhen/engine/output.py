"""The output of runs on its way to the store: collected, bounded, and written a few times a second.

Of each stream the first 64 KiB and the last 192 KiB are kept, in memory until they are written and in the store while
the job runs. Writes use the second-lowest of the writer's lanes and never delay a run. A write that the store refuses
is retried, and what does not fit meanwhile is lost, oldest first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Protocol

from everwhen.clock import Clock
from everwhen.errors import StoreError
from everwhen.model.job import Job
from everwhen.model.output import OutputGap, OutputPiece, OutputStream
from everwhen.target import Stream

HEAD = 64 * 1024
TAIL = 192 * 1024
PIECE = 64 * 1024
PAUSE = 0.5
LONGEST_PAUSE = 16.0  # between two attempts, and two log lines, while the store refuses
CLOSING = 5.0

log = logging.getLogger("everwhen")


class OutputStore(Protocol):
    def write_output(self, now: int, pieces: list[OutputPiece], gaps: list[OutputGap]) -> None: ...


class OutputBook:
    """The output of every run of a node. Its thread starts with the first piece and ends with `close`."""

    def __init__(self, store: OutputStore, clock: Clock, *, pause: float = PAUSE) -> None:
        self._store, self._clock, self._pause = store, clock, pause
        self._lock = threading.Lock()
        self._changed: dict[OutputStream, _Waiting] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def of(self, job: Job) -> RunOutput:
        return RunOutput(self, job.job_id, job.attempt)

    def add(self, waiting: _Waiting, data: bytes) -> None:
        with self._lock:
            waiting.add(data)
            self._changed[waiting.stream] = waiting
            if self._thread is None:
                self._closing.clear()
                self._thread = threading.Thread(target=self._serve, name="everwhen-output", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write the waiting pieces; on StoreError they keep waiting."""
        with self._lock:
            changed = list(self._changed.values())
            pieces = [piece for waiting in changed for piece in waiting.pieces()]
            gaps = [gap for waiting in changed for gap in waiting.gaps()]
        if not pieces:
            return
        self._store.write_output(self._clock.now(), pieces, gaps)
        with self._lock:
            for waiting in changed:
                waiting.forget(pieces)
                if waiting.is_empty:
                    self._changed.pop(waiting.stream, None)

    def close(self) -> None:
        """Write the remaining pieces and end the thread."""
        self._closing.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSING)

    def _serve(self) -> None:
        is_over, pause = False, self._pause
        while not is_over:
            is_over = self._closing.wait(pause)
            pause = self._pause if self._flushed() else min(2 * pause, max(LONGEST_PAUSE, self._pause))

    def _flushed(self) -> bool:
        try:
            self.flush()
            return True
        except StoreError as error:  # a disk may be full for hours
            log.warning("output cannot be written at the moment: %s", error)
        except Exception:
            log.exception("output cannot be written")
        return False


class RunOutput:
    """The output of one run."""

    def __init__(self, book: OutputBook, job_id: str, attempt: int) -> None:
        self._book, self._job_id, self._attempt = book, job_id, attempt
        self._streams: dict[Stream, _Waiting] = {}

    def write(self, stream: Stream, data: bytes, /) -> None:
        if stream not in self._streams:
            self._streams.setdefault(stream, _Waiting(OutputStream(self._job_id, self._attempt, stream)))
        self._book.add(self._streams[stream], data)


class _Waiting:
    """The unwritten pieces of one stream, and the stream's current length."""

    def __init__(self, stream: OutputStream) -> None:
        self.stream = stream
        self._total = 0
        self._head: deque[OutputPiece] = deque()
        self._tail: deque[OutputPiece] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._head and not self._tail

    def add(self, data: bytes) -> None:
        while data:
            room = HEAD - self._total
            size = min(room, PIECE) if room > 0 else PIECE
            piece = OutputPiece(self.stream, self._total, data[:size])
            _append(self._head if room > 0 else self._tail, piece)
            self._total += len(piece.data)
            data = data[size:]
        while self._tail and self._is_past(self._tail[0]):
            self._tail.popleft()

    def pieces(self) -> list[OutputPiece]:
        return [*self._head, *self._tail]

    def gaps(self) -> list[OutputGap]:
        end = self._total - TAIL
        return [OutputGap(self.stream, HEAD, end)] if end > HEAD else []

    def forget(self, written: list[OutputPiece]) -> None:
        """Remove the written pieces; a piece that grew meanwhile is written again as a whole."""
        done = set(map(id, written))
        self._head = deque(piece for piece in self._head if id(piece) not in done)
        self._tail = deque(piece for piece in self._tail if id(piece) not in done)

    def _is_past(self, piece: OutputPiece) -> bool:
        return piece.position + len(piece.data) <= self._total - TAIL


def _append(pieces: deque[OutputPiece], piece: OutputPiece) -> None:
    """Append the piece, joined to the last one if both fit: a thousand short lines are one piece."""
    last = pieces[-1] if pieces else None
    if last is not None and last.position + len(last.data) == piece.position:
        joined = len(last.data) + len(piece.data)
        if joined <= PIECE and (last.position >= HEAD or piece.position + len(piece.data) <= HEAD):
            pieces[-1] = last._replace(data=last.data + piece.data)
            return
    pieces.append(piece)
