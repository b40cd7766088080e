"""Who may call: tokens, roles, owners, limits, and what is on record of those who were turned away."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from starlette.responses import PlainTextResponse

from everwhen.api.context import ApiContext
from everwhen.api.in_process import call_application
from everwhen.api.rates import Rates
from everwhen.api.request_guard import RequestGuard
from everwhen.config.settings import ApiSettings
from everwhen.decide.draft import Draft
from everwhen.model.changes import Decision
from everwhen.model.instants import MINUTE, to_datetime
from everwhen.model.limits import Shared
from everwhen.model.queries import EventFilter
from everwhen.model.schedule import Schedule
from everwhen.model.token import NO_LIMITS, Confinement, Token
from everwhen.operations.access import Caller
from everwhen.operations.tokens import create_token, find_token, revoke_token
from tests.api.serving import HTTP_RUN, Client, Service, serving

READS = [
    "/schedules/",
    "/schedules/{id}/",
    "/schedules/{id}/upcoming/",
    "/schedules/{id}/why/",
    "/schedules/{id}/slots/",
    "/schedules/{id}/stats/",
    "/schedules/{id}/revisions/",
    "/upcoming/",
]
LISTS = ["/audit/", "/audit/?schedule_id={id}", "/messages/"]
WRITES = [
    ("POST", "/schedules/", {"every": "1h", "run": HTTP_RUN}),
    ("PUT", "/schedules/key/k/", {"every": "1h", "run": HTTP_RUN}),
    ("PATCH", "/schedules/{id}/", {"name": "x"}),
    ("DELETE", "/schedules/{id}/", None),
    ("POST", "/schedules/{id}/pause/", None),
    ("POST", "/schedules/{id}/resume/", None),
    ("POST", "/schedules/{id}/approve/", {"revision": 1}),
    ("POST", "/schedules/{id}/decline/", None),
    ("POST", "/schedules/{id}/revive/", None),
    ("POST", "/schedules/{id}/trigger/", None),
    ("POST", "/schedules/{id}/backfill/", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
    ("POST", "/schedules/batch/", {"schedules": []}),
    ("POST", "/schedules/batch-pause/", {"schedule_ids": []}),
    ("POST", "/schedules/batch-resume/", {"schedule_ids": []}),
    ("POST", "/schedules/batch-delete/", {"schedule_ids": []}),
]


def denials(service: Service) -> int:
    return len(service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1_000))


def test_without_a_token_nothing_is_answered(service: Service) -> None:
    answer = service.nobody.get("/schedules/")
    assert (answer.status, answer.problem) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_comes_in_either_header(service: Service) -> None:
    secret = service.admin.secret or ""
    assert service.nobody.call("GET", "/schedules/", headers={"X-API-Key": secret}).status == 200
    assert service.admin.get("/schedules/").status == 200


def test_an_unknown_token_is_refused_and_on_record_without_its_secret(service: Service) -> None:
    before = denials(service)
    guess = "ew_this-is-a-guess"
    answer = service.nobody.call("GET", "/schedules/", headers={"Authorization": f"Bearer {guess}"})
    assert (answer.status, answer.problem) == (401, "unauthenticated")
    assert denials(service) == before + 1
    (last,) = service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1)
    assert guess not in repr(last) and last.event.detail["path"] == "/api/v1/schedules/"


def test_the_database_has_no_secret(service: Service, tmp_path: Path) -> None:
    made = create_token(service.runtime, "hidden", "viewer")
    assert find_token(service.runtime, made.secret) == made.token
    assert made.secret not in repr(service.runtime.tokens.all())


def test_a_revoked_token_is_refused_at_once(service: Service) -> None:
    made = create_token(service.runtime, "brief", "viewer")
    client = Client(service.url, made.secret)
    assert client.get("/schedules/").status == 200
    revoke_token(service.runtime, made.token.token_id)
    service.context.known_tokens.clear()  # as the call that revokes does; other processes follow within a second
    assert client.get("/schedules/").status == 401


def test_a_viewer_reads_and_changes_nothing(service: Service) -> None:
    made = service.admin.create()
    viewer = service.client("viewer")
    for path in [*READS, *LISTS]:
        assert viewer.get(path.format(id=made["id"])).status == 200, path
    before = denials(service)
    for method, path, body in WRITES:
        answer = viewer.call(method, path.format(id=made["id"]), body)
        assert (answer.status, answer.problem) == (403, "forbidden"), path
    assert denials(service) == before + len(WRITES)
    assert service.admin.get(f"/schedules/{made['id']}/").fields == made


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_someone_elses_schedule_and_an_unknown_one_look_the_same(service: Service, role: str) -> None:
    theirs = service.client(owner="them").create(name="secret plan")
    mine = service.client(role, owner=f"me as {role}")  # type: ignore[arg-type]
    for path in (path for path in READS if "{id}" in path):
        answers = [mine.get(path.format(id=each)) for each in (theirs["id"], "unknown")]
        assert [answer.status for answer in answers] == [404, 404]
        assert answers[0].raw == answers[1].raw
    if role != "viewer":
        for method, path, body in WRITES:
            if "{id}" in path:
                answers = [
                    mine.call(method, path.format(id=each), body) for each in (theirs["id"], "unknown")
                ]
                assert [answer.status for answer in answers] == [404, 404], path
                assert answers[0].raw == answers[1].raw
        many = mine.post("/schedules/batch-pause/", {"schedule_ids": [theirs["id"]]}).fields
        assert many["items"][0]["problem"]["detail"] == "Scheduled job not found."
        assert mine.post("/schedules/batch-delete/", {"schedule_ids": [theirs["id"]]}).status == 204
    assert mine.get("/schedules/?owner=them").fields["items"] == []
    assert mine.get("/schedules/?q=secret").fields["total"] == 0
    assert service.admin.get(f"/schedules/{theirs['id']}/").fields == theirs


def test_what_a_token_with_an_owner_makes_is_the_owners(service: Service) -> None:
    ada = service.client(owner="ada")
    assert ada.create()["owner"] == "ada"
    answer = ada.post("/schedules/", {"every": "1h", "run": HTTP_RUN, "owner": "bob"})
    assert (answer.status, answer.problem) == (403, "forbidden")
    made = ada.create()
    assert ada.patch(f"/schedules/{made['id']}/", {"owner": "bob"}).status == 403
    # Her key is not the one of somebody else with the same name.
    body = {"every": "1h", "run": HTTP_RUN}
    first = ada.call("PUT", "/schedules/key/daily/", body).fields["id"]
    assert service.client(owner="bob").call("PUT", "/schedules/key/daily/", body).fields["id"] != first


@pytest.mark.parametrize("run", [{"command": ["id"]}, {"python": "os:getcwd"}])
def test_code_is_refused_unless_the_service_allows_it_and_an_admin_asks(
    service: Service, tmp_path: Path, run: dict[str, object]
) -> None:
    body = {"every": "1h", "run": run}
    answer = service.admin.post("/schedules/", body)
    assert (answer.status, answer.problem) == (403, "forbidden")
    made = service.admin.create()
    assert service.admin.patch(f"/schedules/{made['id']}/", {"run": run}).status == 403
    with serving(tmp_path, allow_code_targets=True) as open_runtime:
        assert open_runtime.client("operator").post("/schedules/", body).status == 403
        assert open_runtime.admin.post("/schedules/", body).status == 201


@pytest.mark.parametrize("role", ["operator", "admin"])
@pytest.mark.parametrize(
    ("run", "status"),
    [
        ({"command": ["id"]}, 403),
        ({"python": "os:getcwd"}, 403),
        ({"http": {"url": "https://example.com/?key=${HOME}"}}, 422),
        ({"http": {"url": "https://example.com/", "headers": {"X": "${HOME:-none}"}}}, 422),
        ({"agent": {"name": "bot", "prompt": "${HOME}"}}, 422),
    ],
)
def test_code_and_the_environment_are_not_for_tokens_with_an_owner(
    tmp_path: Path, role: str, run: dict[str, object], status: int
) -> None:
    """An owner's admin token would run commands as the service, and read its environment."""
    body = {"every": "1h", "run": run}
    with serving(
        tmp_path, file='agents: {bot: {command: ["true"], owner: ada}}', allow_code_targets=True
    ) as runtime:
        ada = runtime.client(role, owner="ada")  # type: ignore[arg-type]
        made = ada.create()
        answers = [
            ada.post("/schedules/", body),
            ada.call("PUT", "/schedules/key/mine/", body),
            ada.patch(f"/schedules/{made['id']}/", {"run": run}),
        ]
        assert [answer.status for answer in answers] == [status] * 3
        (item,) = ada.post("/schedules/batch/", {"schedules": [body]}).fields["items"]
        assert item["problem"]["status"] == status
        assert runtime.admin.post("/schedules/", body).status == 201
        assert (
            ada.patch(f"/schedules/{made['id']}/", {"ping": {"url": "https://x.example/${HOME}"}}).status
            == 422
        )


def test_the_environment_of_workers_is_not_for_callers(service: Service) -> None:
    run = {"http": {"url": "https://example.com/", "headers": {"X": "${DATABASE_PASSWORD}"}}}
    answer = service.admin.post("/schedules/", {"every": "1h", "run": run})
    assert (answer.status, answer.fields["errors"][0]["path"]) == (422, "run.http.headers.X")


def test_a_secret_in_a_header_is_not_repeated(service: Service) -> None:
    headers = {"Authorization": "Bearer hunter2", "Accept": "text/plain"}
    run = {"http": {"url": "https://ada:hunter2@example.com/", "headers": headers}}
    made = service.admin.post("/schedules/", {"every": "1h", "run": run})
    assert "hunter2" not in made.raw.decode()
    assert made.fields["run"]["http"]["headers"] == {"Authorization": "***", "Accept": "text/plain"}
    # An edit of something else keeps what only the database knows.
    service.admin.patch(f"/schedules/{made.fields['id']}/", {"name": "x"})
    stored = service.runtime.catalogue.get(made.fields["id"])
    assert stored is not None and "hunter2" in stored.definition.target.spec


# -- limits --


def test_a_token_has_no_more_schedules_than_it_may(service: Service) -> None:
    client = service.client(max_schedules=2)
    client.create()
    last = client.create()
    answer = client.post("/schedules/", {"every": "1h", "run": HTTP_RUN})
    assert (answer.status, answer.problem) == (403, "limit-reached")
    client.call("DELETE", f"/schedules/{last['id']}/")
    client.create()


def test_schedules_that_are_over_do_not_count_until_they_start_anew(service: Service) -> None:
    client = service.client(max_schedules=1)
    over = client.create(every="1h", end_at="2100-01-01T00:00:00Z")
    path = f"/schedules/{over['id']}"
    service.runtime.catalogue.change(service.runtime.clock.now(), over["id"], _done)
    other = client.create()
    assert client.post(f"{path}/revive/").problem == "limit-reached"
    assert client.get(f"{path}/").fields["status"] == "done"
    client.call("DELETE", f"/schedules/{other['id']}/")
    assert client.post(f"{path}/revive/").fields["status"] == "active"


def _done(schedule: Schedule, now: int, shared: Shared) -> Decision:
    draft = Draft(schedule, now, shared)
    draft.become("done", "schedule.done", "done")
    return draft.decision()


@pytest.mark.parametrize(
    ("trigger", "is_refused"),
    [
        ({"every": "5h"}, False),
        ({"every": "4h"}, True),
        ({"cron": "0 9,12,15,18,21 * * 1"}, False),
        ({"cron": "0 9-14 * * 1"}, True),
        ({"after": "1h"}, False),
    ],
)
def test_a_schedule_that_alone_exceeds_the_firings_of_a_day_is_refused(
    service: Service, trigger: dict[str, str], is_refused: bool
) -> None:
    client = service.client(fires_per_day=5)
    answer = client.post("/schedules/", {**trigger, "run": HTTP_RUN})
    assert (answer.status == 403) == is_refused, answer.raw
    if is_refused:
        assert "alone would fire 6 times a day" in answer.fields["detail"]


@pytest.mark.parametrize("trigger", [{"every": "4m"}, {"cron": "*/4 * * * *"}, {"cron": "0,1 5 * * *"}])
def test_a_token_fires_no_more_often_than_it_may(service: Service, trigger: dict[str, str]) -> None:
    client = service.client(min_interval="5m")
    answer = client.post("/schedules/", {**trigger, "run": HTTP_RUN})
    assert (answer.status, answer.problem) == (403, "beyond-limit")
    made = client.create(every="5m")
    assert client.patch(f"/schedules/{made['id']}/", {"every": None, **trigger}).status == 403
    client.create(every=None, cron="*/5 * * * *")


def test_what_a_token_makes_ends_after_its_ttl(service: Service) -> None:
    client = service.client(ttl="1h")
    answer = client.post("/schedules/", {"every": "1m", "run": HTTP_RUN})
    assert answer.fields["end_at"] is not None
    assert answer.headers["everwhen-note"].startswith(
        f"end_at is {answer.fields['end_at']}: what this token makes"
    )
    sooner = client.post("/schedules/", {"every": "1m", "end_at": _in_half_an_hour(service), "run": HTTP_RUN})
    assert "everwhen-note" not in sooner.headers
    assert client.create(every="1m", end_at="9000-01-01T00:00:00Z")["end_at"] <= "2100"
    assert client.post("/schedules/", {"after": "2h", "run": HTTP_RUN}).problem == "beyond-limit"
    assert client.post("/schedules/", {"after": "30m", "run": HTTP_RUN}).status == 201


def _in_half_an_hour(service: Service) -> str:
    return to_datetime(service.runtime.clock.now() + 30 * MINUTE).isoformat()


def test_a_token_makes_only_the_targets_that_it_may(service: Service) -> None:
    client = service.client(targets=["message"])
    assert client.post("/schedules/", {"every": "1h", "run": HTTP_RUN}).problem == "beyond-limit"
    made = client.create(run={"message": {"text": "x"}})
    assert client.patch(f"/schedules/{made['id']}/", {"run": HTTP_RUN}).problem == "beyond-limit"


def test_firings_are_paid_by_the_token_that_made_the_schedule(service: Service) -> None:
    made = service.client(fires_per_hour=3).create()
    service.admin.patch(f"/schedules/{made['id']}/", {"name": "edited by another"})
    schedule = service.runtime.catalogue.get(made["id"])
    assert schedule is not None
    assert [(budget.per_hour, budget.per_day) for budget in schedule.definition.budgets] == [(3, None)]


def test_what_needs_approval_waits_for_an_operator(service: Service) -> None:
    agent = service.client(approval="required")
    made = agent.create()
    path = f"/schedules/{made['id']}"
    assert (made["status"], made["paused_by"], made["next_run_at"]) == ("paused", "approval", None)
    for action in ("resume", "trigger"):
        assert agent.post(f"{path}/{action}/").status == 403
    assert agent.patch(f"{path}/", {"enabled": True}).status == 403
    assert agent.patch(f"{path}/", {"name": "better"}).status == 200
    assert service.client().post(f"{path}/approve/", {"revision": 2}).fields["status"] == "active"
    assert agent.post(f"{path}/trigger/").status == 202


# -- rates, hosts, origins, sizes --


def test_wrong_tokens_are_counted_per_address_and_shut_out_nobody_who_has_one(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        wrong = Client(service.url, "wrong")
        found = [wrong.get("/schedules/") for _ in range(25)]
        assert [answer.status for answer in found].count(401) in (20, 21)
        assert (found[-1].status, found[-1].problem) == (429, "too-many-requests")
        assert int(found[-1].headers["retry-after"]) >= 1
        assert service.admin.get("/schedules/").status == 200  # who has a token is not shut out
        assert denials(service) <= 21


def test_a_token_that_asks_too_often_learns_when_to_come_again(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        client = service.client("viewer")
        service.context.rates = Rates(burst=1, per_second=0.001, monotonic=lambda: 0.0)
        assert client.get("/schedules/").status == 200
        answer = client.get("/schedules/")
        assert (answer.status, answer.problem) == (429, "too-many-requests")
        assert service.admin.get("/schedules/").status == 200


def test_a_host_of_another_name_is_refused(service: Service, tmp_path: Path) -> None:
    for host in ("evil.example", "evil.example:8750", "", "169.254.1.1", "evil.example@localhost"):
        answer = service.admin.call("GET", "/schedules/", headers={"Host": host})
        assert (answer.status, answer.problem) == (421, "wrong-host"), host
    assert service.admin.call("GET", "/schedules/", headers={"Host": "localhost:1"}).status == 200
    with serving(tmp_path, allowed_hosts=("Ops.Example",)) as named:
        assert named.admin.call("GET", "/schedules/", headers={"Host": "ops.example"}).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("example.com", 200),
        ("a.Example.com:8750", 200),
        ("a.b.example.com", 200),
        ("evilexample.com", 421),
        ("example.com.evil", 421),
        ("a.example.com.", 421),
        (".example.com", 200),
        ("com", 421),
    ],
)
def test_a_domain_stands_for_itself_and_for_the_names_below_it(
    tmp_path: Path, host: str, status: int
) -> None:
    with serving(tmp_path, allowed_hosts=(".example.com",)) as named:
        assert named.admin.call("GET", "/schedules/", headers={"Host": host}).status == status


@pytest.mark.parametrize(
    ("path", "is_answered"),
    [("/healthz", True), ("/readyz", True), ("/healthzz", False), ("/healthz/x", False), ("/metrics", False)],
)
def test_only_the_probes_answer_under_every_name(service: Service, path: str, is_answered: bool) -> None:
    answer = anyio.run(call_application, service.app, "GET", path, None, {"host": "10.1.2.3:8750"})
    assert (answer.status != 421) == is_answered


def test_a_dot_among_the_names_stands_for_no_name(tmp_path: Path) -> None:
    with serving(tmp_path, allowed_hosts=(".",)) as named:
        for host in ("", "evil.example.", "evil.example"):
            assert named.admin.call("GET", "/schedules/", headers={"Host": host}).status == 421, host


def test_a_key_belongs_to_its_owner_whichever_owner_a_token_names(service: Service) -> None:
    ada = service.client(owner="ada")
    body = {"every": "1h", "run": HTTP_RUN}
    assert ada.call("PUT", "/schedules/key/mine/", body).status == 201
    assert ada.get("/schedules/key/mine/").status == ada.get("/schedules/key/mine/?owner=ada").status == 200
    assert ada.get("/schedules/key/mine/?owner=bob").status == 404
    assert service.admin.get("/schedules/key/mine/?owner=ada").status == 200
    assert service.admin.get("/schedules/key/mine/").status == 404


def test_a_key_of_a_run_is_one_of_its_agent() -> None:
    keys = {
        Caller(Token("t", "t", "operator", owner, NO_LIMITS, 0, confined=confined)).key_of("k")
        for owner in (None, "ada")
        for confined in (None, Confinement("bot", "j", 1, 1), Confinement("other", "j", 1, 1))
    }
    assert keys == {"/k", "/agent:bot/k", "/agent:other/k", "ada/k", "ada/agent:bot/k", "ada/agent:other/k"}


@pytest.mark.parametrize(
    ("names", "status"), [((), 200), (("ops.example",), 421), ((".example",), 421), (("*",), 200)]
)
def test_an_address_is_taken_for_a_name_only_where_no_names_are_listed(
    service: Service, names: tuple[str, ...], status: int
) -> None:
    settings = ApiSettings(host="192.0.2.7", insecure=True, allowed_hosts=names)
    context = ApiContext(service.context.runtime, settings, service.context.rules)
    guard = RequestGuard(PlainTextResponse("ours"), context)

    def status_for(host: str) -> int:
        answer = anyio.run(call_application, guard, "GET", "/api/v1/schedules/", None, {"host": host})
        return answer.status

    assert [status_for(host) for host in ("192.0.2.8", "192.0.2.8:8750", "[2001:db8::1]:8750")] == [
        status
    ] * 3
    assert status_for("192.0.2.7") == 200  # its own
    assert status_for("evil.example.org") == (200 if names == ("*",) else 421)


def test_a_page_of_another_origin_changes_nothing(service: Service) -> None:
    made = service.admin.create()
    for foreign in ("https://evil.example", "http://127.0.0.1:1", "null"):  # another port is another origin
        answer = service.admin.post(f"/schedules/{made['id']}/pause/", headers={"Origin": foreign})
        assert (answer.status, answer.problem) == (403, "forbidden"), foreign
    assert service.admin.get(f"/schedules/{made['id']}/").fields["status"] == "active"
    own = {"Origin": service.url}
    assert service.admin.post(f"/schedules/{made['id']}/pause/", headers=own).status == 200
