"""Feeds: one reader of the database for all who listen, each at its own place, and nobody served from a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from everwhen.api.feeds import MOST_BYTES, MOST_KEPT, PAGE, Cursor, Feed, Item, Reader, Source
from everwhen.errors import StoreError

PATIENCE = 60.0


class Table:
    """Items in commit order, as a database hands them out."""

    def __init__(self, *items: Item) -> None:
        self.items = list(items)
        self.asked: list[int] = []
        self.is_away = False

    def add(self, count: int, owner: str | None = None, size: int = 10) -> None:
        first = len(self.items) + 1
        self.items += [Item(0, at, owner, f"{at:0{size}}|".encode()) for at in range(first, first + count)]

    def after(self, cursor: Cursor, limit: int) -> Sequence[Item]:
        (number,) = cursor
        self.asked.append(number)
        if self.is_away:
            raise StoreError("it is away")
        numbers = [item.number for item in self.items]
        first = numbers.index(number) + 1 if number in numbers else 0
        return self.items[first : first + limit]

    def last(self) -> Cursor:
        return (self.items[-1].number if self.items else 0,)

    @property
    def source(self) -> Source:
        return Source(self.after, self.last)

    def feed(self) -> Feed:
        return Feed(self.source, lambda: len(self.items))


def ids(data: bytes) -> list[int]:
    return [int(piece.rpartition(b"\n")[2][-10:]) for piece in data.split(b"|") if piece]


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
        async with feed.reader((after,), None) as reader:
            table.add(1_000)
            assert await read(reader, 3_000 - after) == list(range(after + 1, 3_001))
            table.add(1)
            assert await read(reader, 1) == [3_001]

    asyncio.run(play())


def test_ids_are_places_in_the_order_of_commits_and_say_nothing_by_their_size() -> None:
    async def play() -> None:
        table = Table(*[Item(0, number, None, b"%d|" % number) for number in (7, 3, 9, 1)])
        async with table.feed().reader((9,), None) as reader:
            table.items += [Item(0, 8, None, b"8|"), Item(0, 2, None, b"2|")]
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
        async with feed.reader((0,), "ada") as ada, feed.reader((0,), None) as admin:
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
            assert feed.place_behind(0, 1) is None  # which is more than it keeps
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
            assert await asyncio.wait_for(waiting, PATIENCE / 2) == b""

    asyncio.run(play())


# -- two sequences --


class TwoTables:
    """Two sequences; the memory and the pages see them interleaved differently, as two looks of a database may."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.looks = 0

    def add(self, text: str) -> None:
        """a1 b1 a2: items of the sequences a and b."""
        self.items += [Item("ab".index(word[0]), int(word[1:]), None, b"|") for word in text.split()]

    def after(self, cursor: Cursor, limit: int) -> Sequence[Item]:
        self.looks += 1
        ahead = [
            item for item in self.items if item.sequence is not None and item.number > cursor[item.sequence]
        ]
        is_turned = self.looks % 2
        return sorted(ahead, key=lambda item: is_turned == (item.sequence == 0))[:limit]

    def last(self) -> Cursor:
        return (0, 0)


async def take(reader: Reader, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        chunk = await reader.next(PATIENCE)
        assert chunk, found
        found += [line.removeprefix(b"id: ") for line in chunk.replace(b"|", b"\n").split(b"\n") if line]
    return found


def parts(reported: Sequence[bytes]) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, _, b in (one.partition(b".") for one in reported)]


@pytest.mark.parametrize("after", [(0, 0), (1, 0), (0, 2), (2, 1), (3, 3), (2,)])
def test_two_sequences_are_delivered_once_each_whatever_way_they_were_interleaved(
    after: tuple[int, ...],
) -> None:
    async def play() -> None:
        tables = TwoTables()
        tables.add("a1 b1 a2 b2 b3 a3")
        start = after if len(after) == 2 else (*after, 0)
        feed = Feed(Source(tables.after, tables.last), lambda: len(tables.items))
        async with feed.reader(None, None) as quick, feed.reader(after, None) as reader:
            await take(quick, 6)
            tables.add("b4 a4")
            reported = parts(await take(reader, 8 - sum(start)))
            await take(quick, 2)
            tables.add("a5 b5")
            reported += parts(await take(reader, 2))
        seen = [start, *reported]
        steps = [(new[0] - old[0], new[1] - old[1]) for old, new in pairwise(seen)]
        assert set(steps) <= {(1, 0), (0, 1)}  # each id moves one sequence by one
        assert seen[-1] == (5, 5)

    asyncio.run(play())


def test_what_is_forgotten_of_one_sequence_does_not_send_a_reader_of_the_other_to_the_database() -> None:
    async def play() -> None:
        tables = TwoTables()
        tables.add("a1")
        feed = Feed(Source(tables.after, tables.last), lambda: len(tables.items))
        async with feed.reader(None, None) as quick:
            await take(quick, 1)
            tables.add(" ".join(f"b{number}" for number in range(1, MOST_KEPT + 2 * PAGE)))
            await take(quick, MOST_KEPT + 2 * PAGE - 1)
            assert feed.place_behind(0, 1) is not None

    asyncio.run(play())


def test_a_hold_is_reported_when_it_is_new_and_has_no_id() -> None:
    async def play() -> None:
        table = Table()
        counts: dict[Hashable, Item] = {"old": Item(None, 0, None, b"old|")}
        feed = Feed(Source(table.after, table.last, lambda: dict(counts)), lambda: len(table.items))
        async with feed.reader(None, None) as reader, feed.reader(None, "ada") as ada:
            counts["new"] = Item(None, 0, None, b"new|")
            counts["hers"] = Item(None, 0, "ada", b"hers|")
            assert await reader.next(PATIENCE) == b"new|hers|"
            assert await ada.next(PATIENCE) == b"hers|"
            table.add(1)
            assert await read(reader, 1) == [1]

    asyncio.run(play())
