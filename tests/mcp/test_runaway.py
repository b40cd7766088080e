"""An agent that has gone wild: its limits stop it, one alert is sent, and the schedules of others go on as before."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from everwhen.config.sections.notify import rules_in
from everwhen.engine.service import ServiceOptions
from everwhen.model.instants import SECOND
from everwhen.operations.agent_runs import AgentRuns
from everwhen.operations.maintenance import prove
from everwhen.target_registry import open_target_registry
from everwhen.wiring import build_service, open_notifier, open_stack
from tests.api.serving import Client, Service, serving
from tests.mcp.talking import Tools
from tests.targets.http_server import Server, a_server, status

THREADS = 8
TRIES = 8  # of each run, to schedule itself
DELAYS = (1, 2, 3)  # seconds, after which others have their slots
NOON = 1_768_305_600 * SECOND  # no hour and no day ends meanwhile
MESSAGE = {"message": {"text": "x"}}
AGENT = {"agent": {"name": "wild", "prompt": "Go on."}}
LIMITS: dict[str, Any] = {
    "max_schedules": 20,
    "min_interval": "1m",
    "fires_per_day": 5,
    "targets": ["message", "agent"],
}
SELF_SCHEDULE = {"max_schedules": 3, "max_depth": 1, "approval": "none"}
# A run that makes as many runs of itself as it can, at once and later, and writes down what came of it.
PROGRAM = f"""
import json, os, urllib.error, urllib.request
api, found = os.environ["EVERWHEN_URL"] + "/api/v1/schedules/", []
for number in range({TRIES}):
    body = {{"name": str(number), "after": "1s" if number % 2 else "1h", "run": {json.dumps(AGENT)}}}
    headers = {{"Authorization": "Bearer " + os.environ["EVERWHEN_TOKEN"], "Content-Type": "application/json"}}
    request = urllib.request.Request(api, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found.append([answer.status, json.load(answer)["depth"]])
    except urllib.error.HTTPError as error:
        found.append([error.code, json.load(error)["detail"]])
with open(os.environ["EVERWHEN_JOB_ID"] + ".new", "w") as file:
    json.dump(found, file)
os.rename(file.name, os.environ["EVERWHEN_JOB_ID"] + ".json")
"""


class FromNoon:
    """The clock of the host, set to noon."""

    def __init__(self) -> None:
        self._began = monotonic()

    def now(self) -> int:
        return NOON + int((self.monotonic() - self._began) * SECOND)

    def monotonic(self) -> float:
        return monotonic()


@pytest.fixture
def pager() -> Iterator[Server]:
    with a_server(status(200)) as found:
        yield found


@pytest.fixture
def service(tmp_path: Path, pager: Server) -> Iterator[Service]:
    """A service, and a node that fires its schedules, runs its agents and tells of problems."""
    (tmp_path / "agent.py").write_text(PROGRAM)
    command = json.dumps([sys.executable, str(tmp_path / "agent.py")])
    file = f"agents: {{wild: {{command: {command}, cwd: {tmp_path}}}}}"
    clock = FromNoon()
    with serving(tmp_path, file=file, clock=clock) as found:
        stack = open_stack(f"sqlite:///{tmp_path}/api.db", clock=clock)
        runs = AgentRuns(stack.runtime, {"wild": SELF_SCHEDULE}.get, lambda: found.url)
        rules = rules_in(
            [{"http": {"url": pager.url}, "group_wait": "5s"}]
        )  # for all that comes of one attack
        node = build_service(
            stack,
            ServiceOptions(check_interval=0.1, max_workers=4),
            target_registry=open_target_registry(stack.runtime, max_workers=4, agent_runs=runs),
            notifier=open_notifier(stack, lambda: rules),
        )
        node.start()
        try:
            yield found
        finally:
            node.stop(wait_for_jobs=False)
            stack.close()
        assert prove(found.runtime).is_clean


def attacked(caller: Client, agent_ids: Sequence[str], until: Callable[[], bool]) -> Counter[tuple[str, int]]:
    """What comes back while several threads create and trigger as fast as they can, until something has happened."""
    over, found = threading.Event(), Counter[tuple[str, int]]()

    def attack(thread: int) -> Counter[tuple[str, int]]:
        seen: Counter[tuple[str, int]] = Counter()
        number = 0
        while not over.is_set():
            number += 1
            body = {
                "name": f"{thread}-{number}",
                "every": "1d",
                "first_run": "after_interval",
                "run": MESSAGE,
            }
            seen["create", caller.post("/schedules/", body).status] += 1
            agent_id = agent_ids[number % len(agent_ids)]
            seen["trigger", caller.post(f"/schedules/{agent_id}/trigger/").status] += 1
            seen["often", caller.post("/schedules/", {**body, "every": "1s"}).status] += 1
        return seen

    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(attack, thread) for thread in range(THREADS)]
        waited = threading.Event()
        try:
            while not until() and not any(one.done() for one in running):
                waited.wait(0.05)
        finally:
            over.set()
        for one in running:
            found += one.result()
    return found


def has_fired(service: Service, schedule: dict[str, Any]) -> bool:
    return service.admin.get(f"/schedules/{schedule['id']}/").fields["last_fired_at"] is not None


def test_a_runaway_is_stopped_one_alert_is_sent_and_the_others_go_on(
    service: Service, pager: Server, tmp_path: Path
) -> None:
    others = [service.admin.create(every=None, after=f"{delay}s", run=MESSAGE) for delay in DELAYS]
    caller = service.client(owner=None, **LIMITS)
    # Each of them may be triggered once in `min_interval`.
    agent_ids = [
        caller.create(name=str(number), every="1d", first_run="after_interval", run=AGENT)["id"]
        for number in range(LIMITS["fires_per_day"] + 1)
    ]

    def is_over() -> bool:
        ended = len(own_runs(tmp_path, agent_ids)) == LIMITS["fires_per_day"]
        return ended and bool(pager.seen) and all(has_fired(service, one) for one in others)

    found = attacked(caller, agent_ids, is_over)
    # The agent's schedules are among the twenty.
    assert found["create", 201] == LIMITS["max_schedules"] - len(agent_ids)
    assert found["trigger", 202] == LIMITS["fires_per_day"]
    assert {code for _, code in found} <= {201, 202, 403, 429}
    assert found["often", 201] == 0 and found["often", 403] > 0
    assert found["create", 403] + found["create", 429] > LIMITS["max_schedules"]
    assert found["trigger", 429] > LIMITS["fires_per_day"]
    # The attack went on until the schedules of others had fired; how late they are beside it is measured by B6.
    check_runs(tmp_path, agent_ids)
    check_alert(service, pager)
    # Over MCP it gets the same in words. The attack has used up the rate of its token, which comes before any limit.
    service.context.lift_rates()
    tools = Tools(service, caller)
    more = {"name": "a", "purpose": "b", "after": "1h", "message": "One more."}
    assert tools.refusal("create_schedule", **more) == "20 of 20 schedules are used: delete one."
    refusal = tools.refusal("trigger_schedule", id=agent_ids[0], request_id="again")
    assert "do not try again at once" in refusal
    left = tools("get_context")["left"]
    assert (left["schedules"], left["fires_today"]) == (0, 0)


def own_runs(folder: Path, agent_ids: Sequence[str]) -> list[Path]:
    """The runs of what the attacker made itself."""
    return [path for one in agent_ids for path in folder.glob(f"sched-{one}-*.json")]


def check_runs(folder: Path, agent_ids: Sequence[str]) -> None:
    """Runs made no more than all of them may have at a time, and runs of those made none."""
    runs = {path.name: json.loads(path.read_text()) for path in folder.glob("sched-*.json")}
    names = {path.name for path in own_runs(folder, agent_ids)}
    own = [run for name, run in runs.items() if name in names]
    assert len(own) == LIMITS["fires_per_day"]
    made = [status for run in own for status, _ in run]
    assert len(made) == len(own) * TRIES and set(made) == {201, 403}
    assert made.count(201) < len(made) / 2
    assert "3 schedules" in next(text for status, text in own[-1] if status == 403)
    for name, run in runs.items():
        if name not in names:
            assert {status for status, _ in run} == {403}
            assert all("runs make none beyond depth 1" in text for _, text in run)


def check_alert(service: Service, pager: Server) -> None:
    """One message, about the token; the warning that came before it is listed in it."""
    (seen,) = pager.seen
    message = seen.json
    assert (message["kind"], message["alert"]["class"]) == ("opened", "budget.reached")
    assert message["title"].startswith("[everwhen] BUDGET REACHED token:")
    assert [one["class"] for one in message["gathered"]] == ["budget.warning"]
    assert len(service.admin.get("/alerts/deliveries/").fields["items"]) == 1
    classes = Counter(one["class"] for one in service.admin.get("/alerts/").fields["items"])
    assert classes == {"budget.reached": 1, "budget.warning": 1}
