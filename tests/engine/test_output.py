"""Output on its way to the store: live, bounded, and never in the way."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from everwhen.engine.running import OutputBook
from everwhen.errors import StoreError
from everwhen.model.outcome import OutputGap, OutputPiece
from everwhen.testing import ManualClock
from tests.engine.jobs import a_job
from tests.targets.running import until

HEAD, TAIL = 64 << 10, 192 << 10  # of each stream, as the contract says


class Shelf:
    """A store that keeps pieces as a database would, and can refuse."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], bytes] = {}
        self.refuses = False
        self.writes = 0

    def write_output(self, now: int, pieces: list[OutputPiece], gaps: list[OutputGap]) -> None:
        if self.refuses:
            raise StoreError("disk full")
        self.writes += 1
        self.kept |= {(piece.stream.stream, piece.position): piece.data for piece in pieces}
        for gap in gaps:
            for key in [k for k in self.kept if k[0] == gap.stream.stream]:
                if key[1] >= gap.start and key[1] + len(self.kept[key]) <= gap.end:
                    del self.kept[key]

    def text(self, stream: str = "stdout") -> bytes:
        return b"".join(data for (name, _), data in sorted(self.kept.items()) if name == stream)


def a_book(pause: float = 3_600.0) -> tuple[OutputBook, Shelf]:
    shelf = Shelf()
    return OutputBook(shelf.write_output, ManualClock(), pause=pause), shelf


def test_short_writes_become_one_piece_and_a_piece_that_grew_is_written_whole() -> None:
    book, shelf = a_book()
    output = book.of(a_job())
    for _ in range(100):
        output.write("stdout", b"line\n")
    output.write("stderr", b"oops")
    book.flush()
    assert (len(shelf.kept), shelf.writes, shelf.text()) == (2, 1, b"line\n" * 100)
    output.write("stdout", b"more")
    book.flush()
    book.flush()
    assert (shelf.text(), shelf.text("stderr"), shelf.writes) == (b"line\n" * 100 + b"more", b"oops", 2)
    book.close()


def test_what_a_job_printed_is_written_before_its_end_is_recorded() -> None:
    book, shelf = a_book()
    job = a_job()
    book.of(job).write("stdout", b"done")
    book.flush_ended(["another"])
    assert shelf.writes == 0
    book.flush_ended([job.job_id])
    assert (shelf.text(), shelf.writes) == (b"done", 1)
    book.close()


def test_a_store_that_refuses_output_delays_no_end() -> None:
    book, shelf = a_book()
    job = a_job()
    shelf.refuses = True
    book.of(job).write("stdout", b"done")
    book.flush_ended([job.job_id])
    shelf.refuses = False
    book.flush_ended([job.job_id])  # the thread tries again, at its own pace
    assert shelf.writes == 0
    book.flush()
    assert shelf.text() == b"done"
    book.close()


def test_the_store_holds_the_first_and_the_last_of_a_long_stream() -> None:
    book, shelf = a_book()
    output = book.of(a_job())
    whole = b""
    for number in range(100):
        data = bytes([number]) * 9_973
        output.write("stdout", data)
        whole += data
        if number % 7 == 0:
            book.flush()
    book.close()
    text = shelf.text()
    assert text.startswith(whole[:HEAD]) and text.endswith(whole[-TAIL:])
    assert len(text) <= HEAD + TAIL + 2 * 65_536
    between = range(HEAD, len(whole) - TAIL - 65_536)  # a piece at the edge is kept whole
    assert not [position for _, position in shelf.kept if position in between]


def test_what_waits_is_bounded_while_the_store_refuses_and_is_written_when_it_does_not() -> None:
    book, shelf = a_book()
    shelf.refuses = True
    output = book.of(a_job())
    for number in range(500):
        output.write("stdout", bytes([number % 256]) * 65_536)
    waiting = [piece for w in book._changed.values() for piece in w.pieces()]
    assert sum(len(piece.data) for piece in waiting) <= HEAD + TAIL + 65_536
    shelf.refuses = False
    book.flush()
    assert shelf.text().endswith(bytes([499 % 256]) * 65_536)
    book.close()


def test_pieces_arrive_while_the_run_goes_on_and_the_thread_ends_with_the_book() -> None:
    book, shelf = a_book(pause=0.01)
    book.of(a_job()).write("log", b"live")
    until(lambda: shelf.text("log") == b"live")
    book.close()
    assert "everwhen-output" not in {thread.name for thread in threading.enumerate()}


def test_a_store_that_refuses_for_long_is_asked_and_reported_ever_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book, shelf = a_book(pause=0.01)
    shelf.refuses = True
    with caplog.at_level("WARNING", logger="everwhen"):
        book.of(a_job()).write("stdout", b"hello")
        until(lambda: len(caplog.records) >= 5)
    datetimes = [record.created for record in caplog.records]
    pauses = [later - earlier for earlier, later in pairwise(datetimes)]
    assert pauses[3] > 4 * 0.01  # 10, 20, 40, 80, 160 ms
    shelf.refuses = False
    book.close()  # asks once more, at once
    assert shelf.text() == b"hello"
