"""Tokens, quotas and remembered answers on every store."""

from __future__ import annotations

import pytest

from everwhen.config.submission import SubmissionRules, read_submission
from everwhen.errors import QuotaError, RepeatedRequestError, TokenError
from everwhen.model.instants import DAY, SECOND
from everwhen.model.queries import ScheduleFilter
from everwhen.model.token import Confinement, StoredResponse, Token, TokenLimits, limits_of
from everwhen.operations import submissions, tokens
from everwhen.operations.access import Caller, key_of
from everwhen.operations.jobs import trigger_schedule
from everwhen.operations.schedules import delete_schedule
from everwhen.store.tokens import MOST_SESSIONS
from tests.conformance.tenant import Tenant

RUN = {"http": {"url": "https://example.com/"}}


def caller(runtime: Tenant, **limits: object) -> Caller:
    return Caller(tokens.create_token(runtime.runtime, "t", "operator", limits=limits_of(limits)).token)


def make(runtime: Tenant, who: Caller, count: int = 1, **fields: object) -> list[str]:
    found = []
    for _ in range(count):
        now = runtime.runtime.clock.now()
        around = SubmissionRules(now, lambda: "UTC")
        one = read_submission({"every": "1h", "run": RUN, **fields}, submissions.new_id(now), around)
        found += [
            e.schedule.state.schedule_id for e in submissions.create_entries(runtime.runtime, [one], who)
        ]
    return found


def test_a_token_has_so_many_sessions_and_the_oldest_ends_for_another(runtime: Tenant) -> None:
    """Whoever had a token began as many as it liked, and each looked at all the others."""
    token, other = (
        tokens.create_token(runtime.runtime, name, "viewer", lasts=DAY).token for name in ("a", "b")
    )
    kept = tokens.begin_session(runtime.runtime, other)
    begun = []
    for _ in range(MOST_SESSIONS + 5):
        begun.append(tokens.begin_session(runtime.runtime, token))
        runtime.wait("1s")
    found = [tokens.find_session(runtime.runtime, one.secret) for one in begun]
    assert found == [None] * 5 + [token] * MOST_SESSIONS
    assert tokens.find_session(runtime.runtime, kept.secret) == other


def test_a_token_is_found_by_its_secret_until_it_is_revoked(runtime: Tenant) -> None:
    limits = TokenLimits(max_schedules=3, ttl=60, targets=("http",), approval="required")
    made = tokens.create_token(runtime.runtime, "ada's", "viewer", owner="ada", limits=limits, lasts=60)
    assert tokens.find_token(runtime.runtime, made.secret) == made.token
    assert tokens.list_tokens(runtime.runtime) == [made.token]
    tokens.revoke_token(runtime.runtime, made.token.token_id)
    assert tokens.find_token(runtime.runtime, made.secret) is None
    with pytest.raises(TokenError):
        tokens.revoke_token(runtime.runtime, made.token.token_id)


def test_a_token_ends_when_its_time_is_over(runtime: Tenant) -> None:
    made = tokens.create_token(runtime.runtime, "brief", "viewer", lasts=60)
    runtime.clock.advance("59s")
    assert tokens.find_token(runtime.runtime, made.secret) is not None
    runtime.clock.advance("1s")
    assert tokens.find_token(runtime.runtime, made.secret) is None


def test_a_session_is_known_until_it_ends_or_its_time_is_over(runtime: Tenant) -> None:
    token = tokens.create_token(runtime.runtime, "ada's", "viewer", owner="ada").token
    first, second = (tokens.begin_session(runtime.runtime, token) for _ in range(2))
    assert tokens.find_session(runtime.runtime, first.secret) == token
    tokens.end_session(runtime.runtime, first.secret)
    tokens.end_session(runtime.runtime, first.secret)
    assert tokens.find_session(runtime.runtime, first.secret) is None
    runtime.clock.advance("12h")
    assert tokens.find_session(runtime.runtime, second.secret) is None
    third = tokens.begin_session(runtime.runtime, token)  # which deletes the expired sessions
    tokens.revoke_token(runtime.runtime, token.token_id)
    assert tokens.find_session(runtime.runtime, third.secret) is None


def test_only_the_first_start_makes_a_token(runtime: Tenant) -> None:
    first = tokens.first_token(runtime.runtime)
    assert first is not None and first.token.role == "admin"
    assert tokens.first_token(runtime.runtime, "another-secret-of-length") is None
    tokens.revoke_token(runtime.runtime, first.token.token_id)
    assert tokens.first_token(runtime.runtime) is None


def test_a_quota_counts_what_is_there(runtime: Tenant) -> None:
    who = caller(runtime, max_schedules=2)
    (first, _) = make(runtime, who, 2)
    with pytest.raises(QuotaError):
        make(runtime, who)
    delete_schedule(runtime.runtime, first)
    make(runtime, who)


def test_an_answer_is_remembered_for_a_day(runtime: Tenant) -> None:
    who = caller(runtime)
    now = runtime.runtime.clock.now()

    def create_with(key: str) -> None:
        around = SubmissionRules(runtime.runtime.clock.now(), lambda: "UTC")
        one = read_submission({"every": "1h", "run": RUN}, submissions.new_id(now), around)
        answer = StoredResponse(who.token.token_id, key, "digest", '{"ä": "\u2713"}')
        submissions.create_entries(runtime.runtime, [one], who, answer=lambda _: answer)

    create_with("k")
    known = runtime.runtime.tokens.answer(who.token.token_id, "k", since=now - DAY)
    assert known == StoredResponse(who.token.token_id, "k", "digest", '{"ä": "\u2713"}')
    before = runtime.runtime.catalogue.count(ScheduleFilter(), most=100)
    with pytest.raises(RepeatedRequestError):
        create_with("k")
    assert runtime.runtime.catalogue.count(ScheduleFilter(), most=100) == before  # nothing of it remains
    runtime.clock.advance("23h59m59s")
    with pytest.raises(RepeatedRequestError):
        create_with("k")
    runtime.clock.advance("1s")
    create_with("k")


def test_entries_are_listed_newest_first_by_pages(runtime: Tenant) -> None:
    who = caller(runtime)
    ids = make(runtime, who, 5, name="Größe", owner="ada")
    catalogue = runtime.runtime.catalogue
    wanted = ScheduleFilter(owner="ada", target="http", text="größe".upper())
    assert catalogue.count(ScheduleFilter(owner="ada"), most=3) == 3
    first = catalogue.entries(ScheduleFilter(owner="ada", target="http", text="gr"), limit=2)
    second = catalogue.entries(ScheduleFilter(owner="ada"), limit=2, before=first[-1].schedule.state.row_id)
    assert [entry.schedule.state.schedule_id for entry in (*first, *second)] == ids[::-1][:4]
    assert [entry.token_id for entry in first] == [who.token.token_id] * 2
    assert catalogue.entries(wanted, limit=1, offset=10) == []
    (whole,) = [catalogue.entry(ids[0])]
    assert whole is not None and whole.created_at == runtime.runtime.clock.now()
    assert catalogue.entry("a\0b") is None


def test_a_key_belongs_to_one_schedule(runtime: Tenant) -> None:
    who = caller(runtime)
    around = SubmissionRules(runtime.runtime.clock.now(), lambda: "UTC")
    fields = {"every": "1h", "run": RUN}
    made, is_new = submissions.put_entry(
        runtime.runtime, "k", lambda i: read_submission(fields, i, around), who
    )
    again, is_again = submissions.put_entry(
        runtime.runtime, "k", lambda i: read_submission({**fields, "name": "x"}, i, around), who
    )
    assert (made == again, is_new, is_again) == (True, True, False)
    entry = runtime.runtime.catalogue.entry(made)
    assert entry is not None
    assert (key_of(entry), entry.schedule.state.revision) == ("k", 2)


def test_tokens_of_an_owner_are_seen_and_ended_by_that_owner(runtime: Tenant) -> None:
    ada = tokens.create_token(runtime.runtime, "ada's", "admin", owner="ada").token
    tokens.create_token(runtime.runtime, "everybody's", "admin")
    assert [one.name for one in tokens.list_tokens(runtime.runtime, maker=ada)] == ["ada's"]
    assert isinstance(ada, Token) and ada.created_at % SECOND == runtime.runtime.clock.now() % SECOND


def test_the_token_of_a_run_is_good_while_its_attempt_runs(runtime: Tenant) -> None:
    who = caller(runtime)
    (schedule_id,) = make(runtime, who)
    trigger_schedule(runtime.runtime, schedule_id)
    claimed, *_ = runtime.claim()
    job_id = claimed.job.job_id
    confined, limits = Confinement("bot", job_id, 1, 2), TokenLimits(max_schedules=3, targets=("agent",))

    def secret_of(attempt: int, lasts: int = DAY) -> str:
        return tokens.create_job_token(
            runtime.runtime, confined, attempt=attempt, owner="ada", limits=limits, lasts=lasts
        )

    good, brief, next_attempt = secret_of(1), secret_of(1, 60 * SECOND), secret_of(2)
    found = tokens.find_token(runtime.runtime, good)
    assert found is not None
    assert (found.token_id, found.role, found.owner) == ("agent:bot@ada", "operator", "ada")
    assert (found.confined, found.limits) == (confined, limits)
    assert tokens.find_token(runtime.runtime, next_attempt) is None
    assert good not in [token.token_id for token in tokens.list_tokens(runtime.runtime)]
    runtime.clock.advance("60s")
    assert tokens.find_token(runtime.runtime, brief) is None
    assert tokens.find_token(runtime.runtime, good) is not None
    runtime.settle(claimed)
    assert tokens.find_token(runtime.runtime, good) is None


def test_schedules_of_tokens_that_are_over_are_found_in_portions(runtime: Tenant) -> None:
    made = make(runtime, caller(runtime), 3, every=None, after="1m")
    runtime.clock.advance("1h")
    runtime.tick(behind=True)
    runtime.clock.advance("1d")
    catalogue, now = runtime.runtime.catalogue, runtime.runtime.clock.now()
    assert catalogue.over_since(now - 2 * DAY, after=0, limit=9) == []
    first = catalogue.over_since(now - DAY // 2, after=0, limit=2)
    rest = catalogue.over_since(now - DAY // 2, after=first[-1].state.row_id, limit=2)
    assert [one.state.schedule_id for one in (*first, *rest)] == made
