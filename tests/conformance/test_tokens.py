"""Tokens, quotas and remembered answers on every store."""

from __future__ import annotations

import pytest

from everwhen.config.submission import Surroundings, read_submission
from everwhen.errors import QuotaError, RepeatedRequestError, TokenError
from everwhen.model.instants import DAY, SECOND
from everwhen.model.token import Answer, Token, TokenLimits, limits_of
from everwhen.operations import sessions, submissions, tokens
from everwhen.operations.schedules import delete_schedule
from everwhen.operations.submissions import Caller
from everwhen.ports.catalogue import ScheduleFilter
from tests.conformance.tenant import Tenant

RUN = {"http": {"url": "https://example.com/"}}


def caller(house: Tenant, **limits: object) -> Caller:
    return Caller(tokens.create_token(house.house, "t", "operator", limits=limits_of(limits)).token)


def make(house: Tenant, who: Caller, count: int = 1, **words: object) -> list[str]:
    found = []
    for _ in range(count):
        now = house.house.clock.now()
        around = Surroundings(now, lambda: "UTC")
        one = read_submission({"every": "1h", "run": RUN, **words}, submissions.new_id(now), around)
        found += [e.schedule.state.schedule_id for e in submissions.create_entries(house.house, [one], who)]
    return found


def test_a_token_is_found_by_its_secret_until_it_is_revoked(house: Tenant) -> None:
    limits = TokenLimits(max_schedules=3, ttl=60, targets=("http",), approval="required")
    made = tokens.create_token(house.house, "ada's", "viewer", owner="ada", limits=limits, lasts=60)
    assert tokens.find_token(house.house, made.secret) == made.token
    assert tokens.list_tokens(house.house) == [made.token]
    tokens.revoke_token(house.house, made.token.token_id)
    assert tokens.find_token(house.house, made.secret) is None
    with pytest.raises(TokenError):
        tokens.revoke_token(house.house, made.token.token_id)


def test_a_token_ends_when_its_time_is_over(house: Tenant) -> None:
    made = tokens.create_token(house.house, "brief", "viewer", lasts=60)
    house.clock.advance("59s")
    assert tokens.find_token(house.house, made.secret) is not None
    house.clock.advance("1s")
    assert tokens.find_token(house.house, made.secret) is None


def test_a_session_is_known_until_it_ends_or_its_time_is_over(house: Tenant) -> None:
    token = tokens.create_token(house.house, "ada's", "viewer", owner="ada").token
    first, second = (sessions.begin_session(house.house, token) for _ in range(2))
    assert sessions.find_session(house.house, first.secret) == token
    sessions.end_session(house.house, first.secret)
    sessions.end_session(house.house, first.secret)
    assert sessions.find_session(house.house, first.secret) is None
    house.clock.advance("12h")
    assert sessions.find_session(house.house, second.secret) is None
    third = sessions.begin_session(house.house, token)  # which forgets those that are over
    tokens.revoke_token(house.house, token.token_id)
    assert sessions.find_session(house.house, third.secret) is None


def test_only_the_first_start_makes_a_token(house: Tenant) -> None:
    first = tokens.first_token(house.house)
    assert first is not None and first.token.role == "admin"
    assert tokens.first_token(house.house, "another-secret-of-length") is None
    tokens.revoke_token(house.house, first.token.token_id)
    assert tokens.first_token(house.house) is None


def test_a_quota_counts_what_is_there(house: Tenant) -> None:
    who = caller(house, max_schedules=2)
    (first, _) = make(house, who, 2)
    with pytest.raises(QuotaError):
        make(house, who)
    delete_schedule(house.house, first)
    make(house, who)


def test_an_answer_is_remembered_for_a_day(house: Tenant) -> None:
    who = caller(house)
    now = house.house.clock.now()

    def create_with(key: str) -> None:
        around = Surroundings(house.house.clock.now(), lambda: "UTC")
        one = read_submission({"every": "1h", "run": RUN}, submissions.new_id(now), around)
        answer = Answer(who.token.token_id, key, "digest", '{"ä": "\u2713"}')
        submissions.create_entries(house.house, [one], who, answer=lambda _: answer)

    create_with("k")
    known = house.house.tokens.answer(who.token.token_id, "k", since=now - DAY)
    assert known == Answer(who.token.token_id, "k", "digest", '{"ä": "\u2713"}')
    before = house.house.catalogue.count(ScheduleFilter(), most=100)
    with pytest.raises(RepeatedRequestError):
        create_with("k")
    assert house.house.catalogue.count(ScheduleFilter(), most=100) == before  # nothing of it remains
    house.clock.advance("23h59m59s")
    with pytest.raises(RepeatedRequestError):
        create_with("k")
    house.clock.advance("1s")
    create_with("k")


def test_entries_are_listed_newest_first_by_pages(house: Tenant) -> None:
    who = caller(house)
    ids = make(house, who, 5, name="Größe", owner="ada")
    catalogue = house.house.catalogue
    wanted = ScheduleFilter(owner="ada", target="http", text="größe".upper())
    assert catalogue.count(ScheduleFilter(owner="ada"), most=3) == 3
    first = catalogue.entries(ScheduleFilter(owner="ada", target="http", text="gr"), limit=2)
    second = catalogue.entries(ScheduleFilter(owner="ada"), limit=2, before=first[-1].schedule.state.row_id)
    assert [entry.schedule.state.schedule_id for entry in (*first, *second)] == ids[::-1][:4]
    assert [entry.token_id for entry in first] == [who.token.token_id] * 2
    assert catalogue.entries(wanted, limit=1, offset=10) == []
    (whole,) = [catalogue.entry(ids[0])]
    assert whole is not None and whole.created_at == house.house.clock.now()
    assert catalogue.entry("a\0b") is None


def test_a_key_belongs_to_one_schedule(house: Tenant) -> None:
    who = caller(house)
    around = Surroundings(house.house.clock.now(), lambda: "UTC")
    words = {"every": "1h", "run": RUN}
    made, is_new = submissions.put_entry(house.house, "k", lambda i: read_submission(words, i, around), who)
    again, is_again = submissions.put_entry(
        house.house, "k", lambda i: read_submission({**words, "name": "x"}, i, around), who
    )
    assert (made == again, is_new, is_again) == (True, True, False)
    entry = house.house.catalogue.entry(made)
    assert entry is not None
    assert (submissions.key_of(entry), entry.schedule.state.revision) == ("k", 2)


def test_tokens_of_an_owner_are_seen_and_ended_by_that_owner(house: Tenant) -> None:
    ada = tokens.create_token(house.house, "ada's", "admin", owner="ada").token
    tokens.create_token(house.house, "everybody's", "admin")
    assert [one.name for one in tokens.list_tokens(house.house, maker=ada)] == ["ada's"]
    assert isinstance(ada, Token) and ada.created_at % SECOND == house.house.clock.now() % SECOND
