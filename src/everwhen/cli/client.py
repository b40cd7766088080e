"""The client of every command: it calls a service over HTTP, or the API's application in this process on the database.

Both accept the same calls, so that a command has one code path. A user who can open the database needs no token.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

import click

from everwhen.errors import SchedulerError, shown_url

PREFIX = "/api/v1"
TIMEOUT = 60.0
PAGE = 500
BY_KEY = "/schedules/key/"
GENERATED_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TRIES, LONGEST_WAIT = 5, 10  # of a request that comes too often; seconds
MOST_NAMES = 500  # of schedules, each a call; a longer list shows ids after that


class ApiResponse(NamedTuple):
    """Status and body of a response, and in how many seconds a refused request may be repeated."""

    status: int
    body: bytes
    retry_after: int | None = None

    @property
    def fields(self) -> Any:
        return json.loads(self.body) if self.body else None


class ApiError(SchedulerError):
    """The service refused the request; the message is the one of the service."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class AmbiguousNameError(SchedulerError):
    """Several schedules have the name that a user typed."""

    def __init__(self, name: str, found: Sequence[Mapping[str, Any]]) -> None:
        keys = Counter(
            one["key"] for one in found
        )  # several owners may use one key; only the id tells them apart
        words = (one["key"] if one["key"] and keys[one["key"]] == 1 else one["id"] for one in found)
        lines = "\n".join(f"  {word}" for word in words)
        super().__init__(
            f'{len(found)} schedules are named "{name}"; name one of them by its id or key:\n{lines}'
        )


Send = Callable[[str, str, bytes | None, Mapping[str, str]], ApiResponse]


class Client:
    """The calls of the API as a command needs them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._names: dict[str, str] = {}

    def get(self, path: str, **query: object) -> Any:
        return self.call("GET", path, None, query).fields

    def text(self, path: str, **query: object) -> str:
        return self.call("GET", path, None, query, {"accept": "text/plain"}).body.decode(errors="replace")

    def post(self, path: str, body: object = None, **query: object) -> Any:
        return self.call("POST", path, body, query).fields

    def patch(self, path: str, body: object) -> Any:
        return self.call("PATCH", path, body).fields

    def delete(self, path: str, **query: object) -> None:
        self.call("DELETE", path, None, query)

    def pages(self, path: str, most: int, **query: object) -> Iterator[Any]:
        """Yield the items of a list, page after page, at most `most` of them."""
        cursor: str | None = None
        while most > 0:
            page = self.get(path, limit=min(most, PAGE), cursor=cursor, **query)
            yield from page["items"]
            most -= len(page["items"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        """Send one request; raise ApiError with the message of the problem when the service refuses it."""
        asked = {key: _word(value) for key, value in (query or {}).items() if value is not None}
        target = f"{PREFIX}{path}" + (f"?{urlencode(asked, doseq=True)}" if asked else "")
        raw = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = {"content-type": "application/json"} if raw is not None else {}
        answer = self._send_again(method, target, raw, {**sent, **(headers or {})})
        if answer.status == 404 and (meant := self._path_meant(path)) not in (None, path):
            return self.call(method, str(meant), body, query, headers)
        if answer.status >= 400:
            raise ApiError(answer.status, self._complaint(answer, path))
        return answer

    def _send_again(
        self, method: str, target: str, raw: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        """Send a request, and once more where it came too soon; a request that is refused so has done nothing."""
        for _ in range(TRIES - 1):
            answer = self._send(method, target, raw, headers)
            if answer.status != 429 or answer.retry_after is None or answer.retry_after > LONGEST_WAIT:
                return answer
            time.sleep(answer.retry_after)
        return self._send(method, target, raw, headers)

    def _path_meant(self, path: str) -> str | None:
        """Return the path with the id of the schedule that its key or name means; None for other paths."""
        root, noun, *rest = path.split("/")
        if root or noun != "schedules" or len(rest) < 2 or not rest[0] or path.startswith(BY_KEY):
            return None
        return "/".join(("", noun, part(self.schedule_id(unquote(rest[0]))), *rest[1:]))

    def schedule_id(self, name: str) -> str:
        """Return the id of the schedule with this id, key or unique name; the text itself when there is none."""
        if not name:
            raise click.UsageError(EMPTY)
        try:
            found = self.get("/find/", schedule=name)["items"]
        except ApiError as error:
            if error.status in (404, 422):  # a service of an earlier release; a text that cannot be a name
                return name
            raise
        if len(found) > 1:
            raise AmbiguousNameError(name, found)
        return str(found[0]["id"]) if found else name

    def name_of(self, schedule_id: str) -> str:
        """Return what a user would type for a schedule: its key when the id was generated, or else the id."""
        if not GENERATED_ID.fullmatch(schedule_id):
            return schedule_id
        if schedule_id not in self._names and len(self._names) < MOST_NAMES:
            try:
                found = self.get("/find/", schedule=schedule_id)["items"]
            except ApiError as error:
                if error.status != 404:  # a service of an earlier release
                    raise
                found = []
            self._names[schedule_id] = str((found and found[0]["key"]) or schedule_id)
        return self._names.get(schedule_id, schedule_id)

    def label_of(self, row: Mapping[str, Any]) -> str:
        """Return the same for the schedule of a row that has its names; a deleted one has them, too."""
        if not GENERATED_ID.fullmatch(row["schedule_id"]):
            return str(row["schedule_id"])
        if "schedule_key" not in row:  # a service of release 0.2
            return self.name_of(row["schedule_id"])
        return str(row["schedule_key"] or row["schedule_name"] or row["schedule_id"])

    def zone_of(self, schedule_id: str) -> str | None:
        """Return the zone of a schedule, also of a deleted one; None: it does not exist."""
        for path in (path_of(schedule_id), path_of(schedule_id, "why")):
            try:
                return str(self.get(path)["timezone"])
            except ApiError as error:
                if error.status != 404:
                    raise
        return None

    def _complaint(self, answer: ApiResponse, path: str) -> str:
        """Return the message of a problem with a line for each fault, and with hints for people."""
        if answer.status == 401:
            hint = "Give a token with --token or EVERWHEN_TOKEN; `everwhen token create NAME` creates one"
            return f"{_detail(answer)} {hint}"
        if answer.status == 404 and path.startswith("/schedules/") and not path.startswith(BY_KEY):
            name = unquote(path.split("/")[2])
            near = self._near(name)
            hint = f', did you mean "{near}"?' if near else "; `everwhen schedules list` lists all"
            return f'there is no schedule "{name}"{hint}'
        return _detail(answer)

    def _near(self, name: str) -> str | None:
        """Return the id or key that is most like a name that does not exist, among those with the same beginning."""
        from difflib import get_close_matches

        from everwhen.model.scalars import LONGEST_GUESSED

        if len(name) > LONGEST_GUESSED:
            return None
        try:
            found = self.get("/find/", beginning=name[:1])["items"]
        except ApiError:  # the first problem is the one to tell about
            return None
        names = [str(one["key"] or one["id"]) for one in found]
        return next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), None)


EMPTY = "an id is empty; is a variable of the shell unset?"


def part(text: str) -> str:
    """Quote a text as one segment of a path; refuse an empty one."""
    if not text:
        raise click.UsageError(EMPTY)
    return quote(text, safe="")


def _word(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _detail(answer: ApiResponse) -> str:
    try:
        problem = answer.fields
        detail = str(problem["detail"])
    except (ValueError, TypeError, KeyError):
        return f"the service answered {answer.status}"
    faults = [fault for fault in problem.get("errors") or [] if fault["message"] not in detail]
    return "\n".join([detail, *(f"  {fault['path']}: {fault['message']}" for fault in faults)])


@contextmanager
def http_sender(url: str, token: str | None, patience: float = TIMEOUT) -> Iterator[Send]:
    """Send calls over HTTP, all on one connection."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # not needed for a local database

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SchedulerError(
            f"--url {shown_url(url)} is not the address of a service; write http://127.0.0.1:8750"
        )
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=patience)
    base = parts.path.rstrip("/")

    def send(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiResponse:
        sent = {**headers, **({"authorization": f"Bearer {token}"} if token else {})}
        try:
            connection.request(method, base + target, body, sent)
            response = connection.getresponse()
            retry_after = response.getheader("retry-after", "")
            wait = int(retry_after) if retry_after.isdecimal() else None
            return ApiResponse(response.status, response.read(), wait)
        except (OSError, HTTPException) as error:
            raise SchedulerError(
                f"no answer from {shown_url(url)}: {str(error) or type(error).__name__};"
                " is the service running, and is --url right?"
            ) from error

    try:
        yield send
    finally:
        connection.close()


def path_of(schedule_id: str, *more: str) -> str:
    return "/".join(("/schedules", part(schedule_id), *more, ""))
