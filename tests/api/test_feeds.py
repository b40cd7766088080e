"""Feeds: one reader of the database for all who listen, each at its own place, and nobody served from a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from everwhen.api.feeds import MOST_BYTES, MOST_KEPT, PAGE, Feed, Item, Source
from everwhen.errors import StoreError

PATIENCE = 10.0


class Table:
    """Items in commit order, as a database hands them out."""

    def __init__(self, *items: Item) -> None:
        self.items = list(items)
        self.asked: list[int] = []
        self.is_away = False

    def add(self, count: int, owner: str | None = None, size: int = 10) -> None:
        first = len(self.items) + 1
        self.items += [Item(at, owner, f"{at:0{size}}|".encode()) for at in range(first, first + count)]

    def after(self, item_id: int, limit: int) -> Sequence[Item]:
        self.asked.append(item_id)
        if self.is_away:
            raise StoreError("it is away")
        ids = [item.id for item in self.items]
        first = ids.index(item_id) + 1 if item_id in ids else 0
        return self.items[first : first + limit]

    def last(self) -> int:
        return self.items[-1].id if self.items else 0

    @property
    def source(self) -> Source:
        return Source(self.after, self.last)

    def feed(self) -> Feed:
        return Feed(self.source, lambda: len(self.items))


def ids(data: bytes) -> list[int]:
    return [int(piece[-10:]) for piece in data.split(b"|") if piece]


async def read(reader: object, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        chunk = await reader.next(PATIENCE)  # type: ignore[attr-defined]
        assert chunk, found
        found += ids(chunk)
    return found


def test_a_reader_without_a_place_begins_now() -> None:
    async def play() -> None:
        table = Table()
        table.add(3)
        feed = table.feed()
        async with feed.reader(None, None) as reader:
            table.add(2)
            assert await read(reader, 2) == [4, 5]
            assert await reader.next(0.01) == b""

    asyncio.run(play())


@pytest.mark.parametrize("after", [0, 1, 500, 1_999, 2_000])
def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(after: int) -> None:
    async def play() -> None:
        table = Table()
        table.add(2_000)
        feed = table.feed()
        async with feed.reader(after, None) as reader:
            table.add(1_000)
            assert await read(reader, 3_000 - after) == list(range(after + 1, 3_001))
            table.add(1)
            assert await read(reader, 1) == [3_001]

    asyncio.run(play())


def test_ids_are_places_in_the_order_of_commits_and_say_nothing_by_their_size() -> None:
    async def play() -> None:
        table = Table(*[Item(number, None, b"%d|" % number) for number in (7, 3, 9, 1)])
        async with table.feed().reader(9, None) as reader:
            table.items += [Item(8, None, b"8|"), Item(2, None, b"2|")]
            assert await read(reader, 3) == [1, 8, 2]

    asyncio.run(play())


def test_a_hundred_readers_cost_as_many_questions_as_one() -> None:
    async def play(readers: int) -> int:
        table = Table()
        feed = table.feed()
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(feed.reader(None, None)) for _ in range(readers)]
            for batch in range(5):
                table.add(10)
                for one in opened:
                    assert await read(one, 10) == list(range(batch * 10 + 1, batch * 10 + 11))
        return len(table.asked)

    assert asyncio.run(play(100)) <= asyncio.run(play(1)) + 3


def test_owners_hear_of_their_own_only() -> None:
    async def play() -> None:
        table = Table()
        feed = table.feed()
        async with feed.reader(0, "ada") as ada, feed.reader(0, None) as admin:
            table.add(2, "ada")
            table.add(2, "bob")
            table.add(1)
            table.add(1, "ada")
            assert await read(ada, 3) == [1, 2, 6]
            assert await read(admin, 6) == [1, 2, 3, 4, 5, 6]

    asyncio.run(play())


@pytest.mark.parametrize(("count", "size"), [(MOST_KEPT + 2 * PAGE, 10), (50, MOST_BYTES // 40)])
def test_a_reader_that_falls_behind_reads_on_at_its_own_pace(count: int, size: int) -> None:
    async def play() -> None:
        table = Table()
        feed = table.feed()
        async with feed.reader(None, None) as slow, feed.reader(None, None) as quick:
            table.add(1, size=size)
            assert await read(slow, 1) == [1]
            table.add(count, size=size)
            assert len(await read(quick, count + 1)) == count + 1  # it has seen all, so the feed has read all
            assert feed.place_behind(1) is None  # which is more than it keeps
            assert await read(slow, count) == list(range(2, count + 2))
            table.add(1)
            assert await read(slow, 1) == [count + 2]

    asyncio.run(play())


def test_a_database_that_is_away_ends_nothing() -> None:
    async def play() -> None:
        table = Table()
        async with table.feed().reader(None, None) as reader:
            table.is_away = True
            table.add(1)
            assert await reader.next(0.2) == b""
            table.is_away = False
            assert await read(reader, 1) == [1]

    asyncio.run(play())


def test_nobody_listens_and_nobody_reads() -> None:
    async def play() -> None:
        table = Table()
        feed = table.feed()
        async with feed.reader(None, None):
            pass
        asked = len(table.asked)
        table.add(5)
        await asyncio.sleep(0.2)
        assert len(table.asked) <= asked + 1  # the question that was under way
        async with feed.reader(None, None) as reader:
            table.add(1)
            assert await read(reader, 1) == [6]

    asyncio.run(play())


def test_a_feed_that_is_closed_keeps_nobody_waiting() -> None:
    async def play() -> None:
        feed = Table().feed()
        async with feed.reader(None, None) as reader:
            waiting = asyncio.create_task(reader.next(PATIENCE))
            await asyncio.sleep(0)
            feed.close()
            assert await asyncio.wait_for(waiting, 1) == b""

    asyncio.run(play())
