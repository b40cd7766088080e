"""Commands that look at a database of this machine: the answers of the service, without the web application."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.cli import screen
from everwhen.cli.client import Client, Send
from everwhen.cli.local import _application_sender
from everwhen.cli.local_reading import CALLS, LocalReader
from everwhen.database import open_stack
from everwhen.model.token import NO_LIMITS, Token
from everwhen.operations.access import Caller
from everwhen.testing.manual import ManualClock

# What a command that only looks at a file of SQLite must not wait for.
HEAVY = [
    *"fastapi starlette pydantic uvicorn anyio asyncio yaml jsonschema rich psycopg aiohttp http.client ssl".split(),
    *"hashlib secrets uvloop zoneinfo".split(),  # none is needed to show instants in UTC
    *(
        f"everwhen.{name}"  # what only changes need
        for name in """api config engine wiring targets operations.schedules operations.submissions operations.jobs
        decide.draft decide.tick decide.edit store.change store.commit store.system store.restore store.settle
        store.publish""".split()
    ),
]
# Each costs a third of a millisecond to define, five times as much as a NamedTuple.
MOST_DATACLASSES = 45
WHAT_IT_LOADS = """
import sys
from everwhen.cli.main import main
try:
    main()
finally:
    print("LOADED", *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
    changes = sys.modules["everwhen.model.row_changes"]
    print("COMPILED", *(name for name in changes._OF_STATES if name in vars(changes)), file=sys.stderr)
    ours = [found for name, found in sys.modules.items() if name.startswith("everwhen.")]
    classes = {{value for found in ours for value in vars(found).values() if isinstance(value, type)}}
    print("DATACLASSES", sum("__dataclass_fields__" in vars(one) for one in classes), file=sys.stderr)
"""
ADMIN = Token("local", "somebody", "admin", None, NO_LIMITS, 0)


class Both:
    """The reader and the application on one database, on a clock that stands still."""

    def __init__(self, reader: LocalReader, send: Send) -> None:
        self.reader, self.send = reader, send
        self.client = Client(send)

    def assert_same(self, target: str, accept: str | None = None) -> None:
        headers = {} if accept is None else {"accept": accept}
        found = self.reader.answer("GET", target, headers)
        assert found is not None, target
        assert found == self.send("GET", target, None, headers), target


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    path = tmp_path_factory.mktemp("local") / "everwhen.db"
    stack = open_stack(f"sqlite:///{path}", clock=ManualClock())
    try:
        reader = LocalReader(stack.runtime, Caller(ADMIN), dispatch="local")
        with _application_sender(stack.runtime, ADMIN, path.with_name("everwhen.yaml")) as send:
            yield Both(reader, send)
    finally:
        stack.close()


def test_every_reading_call_answers_the_bytes_of_the_service(both: Both) -> None:
    body = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "run": {"message": {"text": "hé"}}}
    ids = [both.client.post("/schedules/", {**body, "name": f"a {n}"})["id"] for n in range(3)]
    job = both.client.post(f"/schedules/{ids[0]}/trigger/", {})["job"]["id"]
    names = {"schedules": ids[0], "jobs": job, "breakers": ids[0]}
    for parts in CALLS:
        path = "/".join(names[parts[0]] if part == "*" else part for part in parts)
        both.assert_same(f"/api/v1/{path}/")
    both.assert_same(f"/api/v1/jobs/{job}/log/", "text/plain")


@pytest.mark.parametrize(
    "target",
    [
        "schedules/?limit=2&status=active&q=a",
        "schedules/?limit=1&cursor=cjI",
        "schedules/?group=nobody",
        "schedules/nosuch/",
        "schedules/nosuch/why/",
        "jobs/?status=queued&origin=manual&from=2026-01-05T09:00:00%2B01:00",
        "jobs/?schedule_id=nosuch",
        "jobs/nosuch/",
        "jobs/nosuch/log/",
        "upcoming/?limit=500",
        "find/?schedule=nosuch",
        "find/?schedule=a+1",
        "find/?beginning=",
        "breakers/nosuch/?limit=1",
    ],
)
def test_parameters_and_refusals_answer_the_bytes_of_the_service(both: Both, target: str) -> None:
    both.assert_same(f"/api/v1/{target}")


@pytest.mark.parametrize(
    "target",
    [
        "schedules/?limit=0",
        "find/?beginning=a&beginning=b",
        "schedules/?limit=501",
        "schedules/?limit=1&limit=2",
        "schedules/?status=idle",
        "schedules/?cursor=nonsense",
        "schedules/?q=",
        "schedules/?unknown=1",
        "schedules/a%2Fb/",
        "jobs/?from=2026-01-05T09:00:00",
        "jobs/?from=yesterday",
        "jobs/?status=gone",
        "jobs/a/log/?after=nonsense",
        "audit/",
        "nothing/",
    ],
)
def test_what_is_not_plainly_right_is_left_to_the_application(both: Both, target: str) -> None:
    assert both.reader.answer("GET", f"/api/v1/{target}", {}) is None


def test_what_writes_is_left_to_the_application(both: Both) -> None:
    assert both.reader.answer("POST", "/api/v1/schedules/", {}) is None


@pytest.mark.parametrize(
    "words", ["schedules list", "why one", "jobs list", "system status", "schedules show one", "budgets list"]
)
def test_looking_at_a_database_loads_no_web_application(tmp_path: Path, words: str) -> None:
    url = f"sqlite:///{tmp_path / 'everwhen.db'}"
    open_stack(url).close()
    code = WHAT_IT_LOADS.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split(), "--database", url],
        cwd=tmp_path,
        env={"PATH": "", "TZ": "UTC", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "LOADED\nCOMPILED\n" in done.stderr, done.stderr
    assert int(done.stderr.split()[-1]) <= MOST_DATACLASSES
    is_wrong = "one" in words or words == "system status"  # no scheduler runs
    assert done.returncode == (1 if is_wrong else 0), done.stderr


CELLS = st.sampled_from(
    ["", "a", "active", "two words", "x" * 60, "–", "a → b", "é", " b ", "one\ntwo", "日本"]
)
HEADS = st.sampled_from(["", "name", ">runs", ">", "a long head"])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_plain_table_is_drawn_as_rich_draws_it(data: st.DataObject) -> None:
    columns = data.draw(st.lists(HEADS, min_size=1, max_size=6))
    row = st.lists(CELLS, min_size=len(columns), max_size=len(columns))
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    plain = screen.plain_table(columns, rows)
    if plain is None:
        return
    drawn = StringIO()
    with redirect_stdout(drawn):
        screen._draw_table(columns, [[screen.Text(cell, is_block=True) for cell in row] for row in rows])
    assert drawn.getvalue().splitlines() == plain
