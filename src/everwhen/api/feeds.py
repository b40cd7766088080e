"""What streams are fed from: one reader of the database for all of a process, and a short memory of what it read.

A feed reads in commit order and keeps the last few thousand items, as they go over the wire. Readers follow that
buffer, each at its own position; nothing is queued for any of them. One that joins further back, or has fallen behind
the buffer, reads pages of the database at its own pace, until it has reached the buffer; each page when it is its
turn, as for an expensive call. Everything here runs on the server's event loop; only the database is read on threads.

The items of a feed may come from several sequences, each with numbers of its own, so a cursor has a number in each. Two
who read the same may see them interleaved differently. Therefore the id that is sent is the reader's own cursor, and
who changes over from the database to the memory passes over what it has seen, sequence by sequence.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import NamedTuple

from anyio.to_thread import run_sync

from everwhen.engine.loop import low_priority
from everwhen.errors import StoreError

PAGE = 200
MOST_KEPT, MOST_BYTES = 5_000, 4 << 20
CHUNK = 64 << 10
LOOK = 0.05  # seconds between two looks at a change counter
ASK = 0.25  # between two questions where there is none
IDLE = 1.0  # asked at least this often, whatever the counter says
HELD_PAUSE = 1.0  # between two looks at what stands
LONGEST_PAUSE = 5.0

log = logging.getLogger("everwhen")


Cursor = tuple[int, ...]
Turn = Callable[[], AbstractAsyncContextManager[None]]
"""Wait until a reader may read a page."""


class Item(NamedTuple):
    """One event or message: its sequence and its number there, whose it is, and its bytes without an id.

    What has no sequence moves no cursor; it is not sent again after a reconnection.
    """

    sequence: int | None
    number: int
    owner: str | None
    frame: bytes


class Source(NamedTuple):
    """Where a feed reads: what comes after a cursor, the last cursor, and what stands at the moment, which is sent
    when it is new; all wait for the database."""

    after: Callable[[Cursor, int], Sequence[Item]]
    last: Callable[[], Cursor]
    counts: Callable[[], Mapping[Hashable, Item]] | None = None


def cursor_text(cursor: Cursor) -> str:
    """
    >>> cursor_text((12, 345))
    '12.345'
    """
    return ".".join(map(str, cursor))


def _behind(cursor: Cursor, item: Item) -> Cursor:
    if item.sequence is None:
        return cursor
    return (*cursor[: item.sequence], item.number, *cursor[item.sequence + 1 :])


class Feed:
    """Reads while there is a reader."""

    def __init__(self, source: Source, changes: Callable[[], int] | None = None) -> None:
        self._source = source
        self._changes = changes
        self._kept: deque[Item] = deque()
        self._bytes = 0
        self._gone = 0  # how many items went before the first that is kept
        self._places: dict[tuple[int, int], int] = {}  # by sequence and number: the place behind an item
        self._before: Cursor = ()  # the last of each sequence in front of what is kept
        self.cursor: Cursor = ()  # the last of each sequence that was read
        self._held: Set[Hashable] = frozenset()
        self._looked = 0.0
        self._readers = 0
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._moved = asyncio.Event()
        self.is_closed = False

    @asynccontextmanager
    async def reader(
        self, after: Sequence[int] | None, owner: str | None, turn: Turn = nullcontext
    ) -> AsyncIterator[Reader]:
        """Return a new reader, from behind that cursor or from now on; `owner`: of that owner's items only.

        Where a cursor names only the first sequences, the others are sent from now on.
        """
        self._readers += 1
        try:
            async with self._opening:
                await self._open()
            given = tuple(after or ())
            yield Reader(self, (*given, *self.cursor[len(given) :]), owner, turn)
        finally:
            self._readers -= 1
            if not self._readers:
                self._stop()

    def close(self) -> None:
        """Wake all waiting readers, and let none wait any more."""
        self.is_closed = True
        self._stop()
        self._wake()

    # -- for readers --

    @property
    def end(self) -> int:
        """Return the position behind the last item."""
        return self._gone + len(self._kept)

    def place_behind(self, sequence: int, number: int) -> int | None:
        """Return where to continue behind a number of a sequence, if the items that follow it are kept."""
        if self._before[sequence] == number:
            return self._gone
        return self._places.get((sequence, number))

    def keeps(self, place: int) -> bool:
        return place >= self._gone

    def since(self, place: int) -> list[Item]:
        """Items from a place on that is kept, as many as fit into one chunk."""
        first = place - self._gone
        return list(_chunk(self._kept[at] for at in range(first, len(self._kept))))

    async def page(self, after: Cursor) -> list[Item]:
        """Items behind a cursor, from the database."""
        return list(_chunk(await run_sync(self._read_page, after)))

    def _read_page(self, after: Cursor) -> Sequence[Item]:
        with low_priority():
            return self._source.after(after, PAGE)

    def moved(self) -> asyncio.Event:
        """Set when something has come since it was asked for."""
        return self._moved

    # -- reading --

    async def _open(self) -> None:
        if self._reading is None and not self.is_closed:
            self.cursor = self._before = await run_sync(self._source.last)
            await self._new_held()
            self._reading = asyncio.create_task(self._read())

    def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._gone = self.end
        self._before = self.cursor
        self._kept.clear()
        self._places.clear()
        self._bytes = 0

    async def _read(self) -> None:
        pause = ASK
        while True:
            try:
                seen = self._changes() if self._changes is not None else 0
                items = await run_sync(self._source.after, self.cursor, PAGE)
                self._keep([*items, *await self._new_held()])
                if len(items) < PAGE:
                    await self._sleep(seen)
                pause = ASK
            except StoreError as error:  # streams stay open, and go on when it is back
                log.warning("streams wait for the database: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _new_held(self) -> list[Item]:
        """Return what is held since the last look, which is at least a second ago; at the first, nothing is new."""
        now = asyncio.get_running_loop().time()
        is_first = self._reading is None
        if self._source.counts is None or (not is_first and now - self._looked < HELD_PAUSE):
            return []
        found = await run_sync(self._source.counts)
        new = [] if is_first else [item for key, item in found.items() if key not in self._held]
        self._held, self._looked = found.keys(), now
        return new

    async def _sleep(self, seen: int) -> None:
        """Sleep until another process has committed, where that can be seen; otherwise for a moment."""
        if self._changes is None:
            await asyncio.sleep(ASK)
            return
        for _ in range(int(IDLE / LOOK)):
            await asyncio.sleep(LOOK)
            if self._changes() != seen:
                return

    def _keep(self, items: Sequence[Item]) -> None:
        for item in items:
            self._kept.append(item)
            self._bytes += len(item.frame)
            if item.sequence is not None:
                self._places[item.sequence, item.number] = self.end
            self.cursor = _behind(self.cursor, item)
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
            self._forget(self._kept.popleft())
        if items:
            self._wake()

    def _forget(self, oldest: Item) -> None:
        self._gone += 1
        self._bytes -= len(oldest.frame)
        self._before = _behind(self._before, oldest)
        if oldest.sequence is not None:
            del self._places[oldest.sequence, oldest.number]

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class Reader:
    """One who listens."""

    def __init__(self, feed: Feed, after: Cursor, owner: str | None, turn: Turn) -> None:
        self._feed = feed
        self._owner = owner
        self._turn = turn
        self._after = after
        self._place: int | None = None
        self._seen: tuple[int, ...] = ()  # by sequence: up to which place it has seen what is kept
        self._join()

    async def next(self, seconds: float) -> bytes:
        """Return the next items for this reader; nothing when none came within that time, or the feed is closed."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self._feed.is_closed:
            moved = self._feed.moved()
            was_at = self._place, self._after
            sent = b"".join(self._encoded(await self._items()))
            if sent:
                return sent
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            if (self._place, self._after) == was_at:
                with suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), left)
        return b""

    def _encoded(self, items: Iterable[Item]) -> Iterator[bytes]:
        for item in items:
            self._after = _behind(self._after, item)
            if self._owner is not None and item.owner != self._owner:
                continue
            if item.sequence is not None:
                yield f"id: {cursor_text(self._after)}\n".encode()
            yield item.frame

    async def _items(self) -> list[Item]:
        if self._place is not None and not self._feed.keeps(self._place):
            self._place = None  # it has fallen behind
        if self._place is None:
            self._join()
        if self._place is not None:
            return self._from_memory(self._place)
        async with self._turn():
            return await self._feed.page(self._after)

    def _join(self) -> None:
        """Change over to the memory, if it has all that follows, whatever the order in which it was read there."""
        if self._feed.is_closed:
            return
        places = [self._feed.place_behind(*numbered) for numbered in enumerate(self._after)]
        known = tuple(place for place in places if place is not None)
        if len(known) == len(places):
            self._place, self._seen = min(known), known

    def _from_memory(self, first: int) -> list[Item]:
        items = self._feed.since(first)
        self._place = first + len(items)
        if first >= max(self._seen):
            return items
        return [item for place, item in enumerate(items, first) if place >= self._seen_of(item)]

    def _seen_of(self, item: Item) -> int:
        return max(self._seen) if item.sequence is None else self._seen[item.sequence]


def _chunk(items: Iterable[Item]) -> Iterable[Item]:
    """Return the first items, until they are enough for one write; at least one, if there is any."""
    length = 0
    for item in items:
        if length and length + len(item.frame) > CHUNK:
            return
        length += len(item.frame)
        yield item
