"""What a person means by a text: an id, a key or a name; and who holds a place. The same on both databases."""

from __future__ import annotations

import pytest

from everwhen.model.token import NO_LIMITS, Token
from everwhen.operations.access import Caller, complete_schedules, find_schedules
from everwhen.operations.maintenance import prune
from everwhen.operations.system import system_status
from everwhen.testing import manual_scheduler


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_ids_go_before_keys_and_keys_before_names(database: str, request: pytest.FixtureRequest) -> None:
    url = "sqlite://" if database == "sqlite" else request.getfixturevalue("postgres_url")
    s = manual_scheduler("2026-01-05T08:00:00Z", database=url)
    try:
        for schedule_id, name in (("one", "twin"), ("two", "twin"), ("other", "one"), ("on%_e", "odd")):
            s.add(schedule_id, every="1h", name=name, max_outstanding=1, if_running="allow")
        anybody, ada = (
            Caller(Token("local", "somebody", "admin", owner, NO_LIMITS, 0)) for owner in (None, "ada")
        )

        def found(text: str, caller: Caller = anybody) -> list[str]:
            return sorted(one.schedule_id for one in find_schedules(s.runtime, text, caller))

        assert found("one") == ["one"] and found("twin") == ["one", "two"] and found("nobody") == []
        assert found("one", ada) == [] and found("twin", ada) == []
        offered = [one.schedule_id for one in complete_schedules(s.runtime, "on", anybody)]
        assert sorted(offered) == ["on%_e", "one"] and complete_schedules(s.runtime, "on", ada) == []
        s.tick()
        s.clock.advance("1h")
        s.tick()
        holds = system_status(s.runtime).holds
        assert len(holds) == 4
        assert all([by.schedule_id for by in held.by] == [held.hold.schedule_id] for held in holds)
        shares: list[float] = []
        prune(s.runtime, progress=shares.append)
        assert shares == sorted(shares) and 0 < shares[-1] < 1
    finally:
        s.close()
