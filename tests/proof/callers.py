"""Clients of the REST API who work during the faults: they create, ask for approval, approve, trigger, edit and read.

A call that got no answer is made again with the same `Idempotency-Key`, at whichever node, until an answer comes. What
was answered with success is kept: it has to be on record in the end, once.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple

from everwhen.model.token import NO_LIMITS, AccessRole, TokenLimits
from everwhen.operations.tokens import create_token
from tests.proof.receiver import EVENTS, WORK
from tests.proof.rest import Answer, Request, RestClient, UnansweredError
from tests.proof.worlds import World

MOST_MADE, MOST_ASKED = 5, 3
LISTENED = ("schedule.created", "schedule.deleted", "schedule.missed", "job.failed", "job.lost", "breaker.*")
Action = Callable[[], object]


class Promise(NamedTuple):
    """What a successful answer said: what was done (`created`, `fired`, …), and the id of what it was done to."""

    what: str
    id: str


@dataclass
class Given:
    """What callers were told: promises, keys under which something was requested at most once, and failures."""

    promises: list[Promise] = field(default_factory=list)
    created_names: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # schedules by callers who need approval
    marks: set[str] = field(default_factory=set)  # of triggers
    faults: list[str] = field(default_factory=list)


class Callers:
    """One thread of calls. `counts` says how often each was done, refused, or got no answer."""

    def __init__(self, world: World, seed: int, *, every: float) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.unanswered: Counter[str] = Counter()  # by what came in the place of an answer
        self.given = Given()
        self._world, self._every = world, every
        self._draw = Random(f"{seed} callers")
        self._numbers = count(1)
        self._person = self._client("operator")
        self._asker = self._client("operator", TokenLimits(approval="required"))
        self._pending: deque[tuple[str, RestClient, Request]] = deque()
        self._made: list[str] = []
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._live, name="callers", daemon=True)
        self._actions: list[tuple[str, Action, int]] = [
            ("create over REST", lambda: self._create(self._person, MOST_MADE), 3),
            ("ask for approval", lambda: self._create(self._asker, MOST_ASKED), 3),
            ("approve or decline", self._answer_request, 5),
            ("trigger over REST", self._trigger, 6),
            ("edit over REST", self._edit, 3),
            ("pause or resume over REST", self._switch, 3),
            ("delete over REST", self._delete, 2),
            (
                "fire over REST",
                lambda: self._send("fire over REST", self._person, Request("POST", HOOK, {})),
                3,
            ),
            ("read", self._read, 8),
        ]

    def subscribe(self) -> str:
        """Create the webhook, and return its id."""
        url = f"{self._world.receiver.url}{EVENTS}"
        answer = self._person.send(Request("POST", "/webhooks/", {"url": url, "on": list(LISTENED)}))
        assert answer.status == 201, answer
        return str(answer.fields["id"])

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Begin nothing new."""
        self._gone.set()
        self._thread.join()

    def without_answer(self) -> list[str]:
        """Ask again for everything that has no answer yet; return what still has none."""
        for _ in range(len(self._pending)):
            self._send(*self._pending.popleft())
        return [f"{name}: {request.method} {request.path}" for name, _, request in self._pending]

    def _client(self, role: AccessRole, limits: TokenLimits = NO_LIMITS) -> RestClient:
        made = create_token(self._world.stack.runtime, f"proof {role}", role, limits=limits)
        return RestClient(self._world.api_addresses, made.secret, self._draw)

    def _live(self) -> None:
        weights = [weight for _, _, weight in self._actions]
        while not self._gone.wait(self._draw.uniform(0.2, 1.8) * self._every):
            if self._pending:
                self._send(*self._pending.popleft())
            name, action, _ = self._draw.choices(self._actions, weights)[0]
            try:
                action()
            except UnansweredError as error:
                self._note_silence(name, error)
            except Exception as error:  # of an answer that is not as documented
                self.given.faults.append(f"{name}: {error!r}")

    # -- sending --

    def _send(self, name: str, client: RestClient, request: Request) -> Answer | None:
        """Send one request; one with a key that gets no answer is sent again later."""
        try:
            answer = client.send(request)
        except UnansweredError as error:
            self._note_silence(name, error)
            if request.key is not None:
                self._pending.append((name, client, request))
            return None
        if answer.status >= 500:
            self.given.faults.append(f"{name}: {request.method} {request.path} was answered {answer}")
        self.counts[name, "done" if answer.is_done else "refused"] += 1
        if answer.is_done:
            self._keep(request, answer)
        if answer.is_done and client is self._asker and request.key is not None:
            self.given.asked.add(answer.fields["id"])
        return answer

    def _note_silence(self, name: str, error: UnansweredError) -> None:
        self.counts[name, "no answer"] += 1
        self.unanswered[error.kind] += 1

    def _keep(self, request: Request, answer: Answer) -> None:
        """Keep what an answer promises."""
        parts = request.path.strip("/").split("/")
        if request.method == "POST" and parts == ["schedules"]:
            self._promise("created", answer.fields["id"])
            self._made.append(answer.fields["id"])
        elif request.method == "DELETE":
            self._promise("deleted", parts[1])
        elif parts[-1] in ("approve", "decline"):
            self._promise(parts[-1], parts[1])
        elif parts[-1] == "trigger" and answer.fields["job"] is not None:
            self._promise("trigger", answer.fields["job"]["id"])

    def _promise(self, what: str, identity: str) -> None:
        self.given.promises.append(Promise(what, identity))

    # -- actions --

    def _create(self, client: RestClient, most: int) -> None:
        if len(self._active()) >= most:
            return
        name = f"rest-{next(self._numbers)}"
        self.given.created_names.add(name)
        body = {
            "name": name,
            "every": f"{self._draw.randint(2, 5) * self._world.slower}s",
            "if_running": self._draw.choice(("skip", "queue")),
            "timeout": "5s",
            "run": {"http": {"url": f"{self._world.receiver.url}{WORK}"}},
        }
        self._send("create over REST", client, Request("POST", "/schedules/", body, key=name))

    def _active(self) -> list[Any]:
        """Return what was made here and is there: over REST, as a client sees it."""
        answer = self._person.send(Request("GET", "/schedules/?q=rest-&limit=100"))
        return list(answer.fields["items"]) if answer.is_done else []

    def _some(self, *statuses: str) -> Any:
        found = [one for one in self._active() if one["status"] in statuses]
        return self._draw.choice(found) if found else None

    def _answer_request(self) -> None:
        waiting = [one for one in self._active() if one["paused_by"] == "approval"]
        if not waiting:
            return
        schedule = self._draw.choice(waiting)
        path = f"/schedules/{schedule['id']}"
        if self._draw.random() < 0.8:
            request = Request("POST", f"{path}/approve/", {"revision": schedule["revision"]})
        else:
            request = Request("POST", f"{path}/decline/", {"note": "once is enough"})
        self._send("approve or decline", self._person, request)

    def _trigger(self) -> None:
        schedule = self._some("active", "paused")
        if schedule is None or schedule["paused_by"] == "approval":
            return
        mark = f"mark-{next(self._numbers)}"
        self.given.marks.add(mark)
        request = Request(
            "POST", f"/schedules/{schedule['id']}/trigger/", {"payload": {"mark": mark}}, key=mark
        )
        self._send("trigger over REST", self._person, request)

    def _edit(self) -> None:
        """Edit as the person who made it, or as the one who has to ask again."""
        schedule = self._some("active")
        if schedule is None:
            return
        body = {"every": f"{self._draw.randint(2, 5) * self._world.slower}s"}
        client = self._draw.choice((self._person, self._asker))
        headers = {"If-Match": f'"{schedule["revision"]}"'}
        request = Request("PATCH", f"/schedules/{schedule['id']}/", body, headers=headers)
        self._send("edit over REST", client, request)

    def _switch(self) -> None:
        schedule = self._some("active", "paused")
        if schedule is None or schedule["paused_by"] == "approval":
            return
        word = "pause" if schedule["status"] == "active" else "resume"
        self._send(
            "pause or resume over REST",
            self._person,
            Request("POST", f"/schedules/{schedule['id']}/{word}/", {}),
        )

    def _delete(self) -> None:
        schedule = self._some("active", "paused", "dead", "done")
        if schedule is not None:
            request = Request("DELETE", f"/schedules/{schedule['id']}/")
            self._send("delete over REST", self._person, request)

    def _read(self) -> None:
        paths = ["/timeline/", "/upcoming/", "/audit/?limit=50", "/jobs/?limit=50", "/budgets/", "/alerts/"]
        paths += [f"/schedules/{name}/{what}/" for name in ("tick-1", "retries") for what in ("why", "slots")]
        self._send("read", self._person, Request("GET", self._draw.choice(paths)))


HOOK = "/hooks/asker.on-push/"
