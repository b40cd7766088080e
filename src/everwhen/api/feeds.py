"""What streams are fed from: one reader of the database for all of a process, and a short memory of what it read.

A feed reads in commit order (L4) and keeps the last few thousand items, as they go over the wire. Readers go along that
memory, each at its own place; nothing is queued for any of them. One that joins further back, or has fallen behind what
is kept, reads pages of the database at its own pace, until it has come to where the memory begins. Everything here runs
on the server's event loop; only the database is read on threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from anyio.to_thread import run_sync

from everwhen.errors import StoreError

PAGE = 200
MOST_KEPT, MOST_BYTES = 5_000, 4 << 20
CHUNK = 64 << 10
LOOK, ASK = (
    0.05,
    0.25,
)  # seconds: between two looks at a change counter, between two questions where there is none
IDLE = 1.0  # asked at least this often, whatever the counter says
LONGEST_PAUSE = 5.0

log = logging.getLogger("everwhen")


class Item(NamedTuple):
    """One event or message: its id, whose it is, and its bytes."""

    id: int
    owner: str | None
    frame: bytes


class Source(NamedTuple):
    """Where a feed reads: what comes after an id, and the last id; both wait for the database."""

    after: Callable[[int, int], Sequence[Item]]
    last: Callable[[], int]


class Feed:
    """Reads while somebody listens."""

    def __init__(self, source: Source, changes: Callable[[], int] | None = None) -> None:
        self._source = source
        self._changes = changes
        self._kept: deque[Item] = deque()
        self._bytes = 0
        self._gone = 0  # how many items went before the first that is kept
        self._places: dict[int, int] = {}  # by id: the place behind an item
        self.cursor = 0  # the last item that was read
        self._readers = 0
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._moved = asyncio.Event()
        self.is_closed = False

    @asynccontextmanager
    async def reader(self, after: int | None, owner: str | None) -> AsyncIterator[Reader]:
        """Somebody who listens, from behind that id or from now on; `owner`: to what is theirs only."""
        self._readers += 1
        try:
            async with self._opening:
                await self._open()
            yield Reader(self, after, owner)
        finally:
            self._readers -= 1
            if not self._readers:
                self._stop()

    def close(self) -> None:
        """Whoever waits is told, and nobody waits any more."""
        self.is_closed = True
        self._stop()
        self._wake()

    # -- for readers --

    @property
    def end(self) -> int:
        """The place behind the last item."""
        return self._gone + len(self._kept)

    def place_behind(self, item_id: int) -> int | None:
        """Where to go on behind an item, if what follows it is kept."""
        place = self._places.get(item_id)
        return place if place is not None and place >= self._gone else None

    def keeps(self, place: int) -> bool:
        return place >= self._gone

    def since(self, place: int) -> list[Item]:
        """Items from a place on that is kept, as many as fit into one chunk."""
        first = place - self._gone
        return list(_chunk(self._kept[at] for at in range(first, len(self._kept))))

    async def page(self, after: int) -> list[Item]:
        """Items behind an id, from the database."""
        return list(_chunk(await run_sync(self._source.after, after, PAGE)))

    def moved(self) -> asyncio.Event:
        """Set when something has come since it was asked for."""
        return self._moved

    # -- reading --

    async def _open(self) -> None:
        if self._reading is None and not self.is_closed:
            self.cursor = await run_sync(self._source.last)
            self._places[self.cursor] = self.end
            self._reading = asyncio.create_task(self._read())

    def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._gone = self.end
        self._kept.clear()
        self._places.clear()
        self._bytes = 0

    async def _read(self) -> None:
        pause = ASK
        while True:
            try:
                seen = self._changes() if self._changes is not None else 0
                items = await run_sync(self._source.after, self.cursor, PAGE)
                self._keep(items)
                if len(items) < PAGE:
                    await self._doze(seen)
                pause = ASK
            except StoreError as error:  # streams stay open, and go on when it is back
                log.warning("streams wait for the database: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _doze(self, seen: int) -> None:
        """Until somebody has committed, where that can be seen; else for a moment."""
        if self._changes is None:
            await asyncio.sleep(ASK)
            return
        for _ in range(int(IDLE / LOOK)):
            await asyncio.sleep(LOOK)
            if self._changes() != seen:
                return

    def _keep(self, items: Iterable[Item]) -> None:
        is_new = False
        for item in items:
            self._kept.append(item)
            self._bytes += len(item.frame)
            self._places[item.id] = self.end
            self.cursor, is_new = item.id, True
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
            oldest = self._kept.popleft()
            self._gone += 1
            self._bytes -= len(oldest.frame)
        if is_new:
            self._forget_places()
            self._wake()

    def _forget_places(self) -> None:
        """Dictionaries keep the order in which places came: the forgotten ones are in front."""
        for item_id in list(self._places):
            if self._places[item_id] >= self._gone:
                break
            del self._places[item_id]

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class Reader:
    """One who listens."""

    def __init__(self, feed: Feed, after: int | None, owner: str | None) -> None:
        self._feed = feed
        self._owner = owner
        self._after = feed.cursor if after is None else after
        self._place: int | None = feed.end if after is None else None

    async def next(self, seconds: float) -> bytes:
        """What comes next for this reader; nothing when nothing came within that time, or the feed is closed."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self._feed.is_closed:
            moved = self._feed.moved()
            items = await self._items()
            frames = [item.frame for item in items if self._owner is None or item.owner == self._owner]
            if frames:
                return b"".join(frames)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            if not items:
                with suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), left)
        return b""

    async def _items(self) -> list[Item]:
        if self._place is not None and not self._feed.keeps(self._place):
            self._place = None  # it has fallen behind
        if self._place is None:
            self._place = self._feed.place_behind(self._after)
        if self._place is None:
            items = await self._feed.page(self._after)
        else:
            items = self._feed.since(self._place)
            self._place += len(items)
        self._after = items[-1].id if items else self._after
        return items


def _chunk(items: Iterable[Item]) -> Iterable[Item]:
    """The first items, until they are enough for one write; always one, if there is any."""
    length = 0
    for item in items:
        if length and length + len(item.frame) > CHUNK:
            return
        length += len(item.frame)
        yield item
