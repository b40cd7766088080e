"""A program as a work source: it is started with a verb as its last argument, reads JSON and writes JSON.

    fetch     {"limit": 10}                        → {"items": [{"id", "title", "description", …}]}
    claim     {"id", "by"}                         → {"item": {…}}, or {"item": null} when it is not available
    complete  {"id", "status", "summary", "error", "job_id"}
    release   {"id", "reason"}
    get       {"id"}                               → {"item": {…} | null}

An exit code other than 0, an answer that is not a JSON object, or no answer within the timeout is an error of the
source. The program itself decides which claims are dead; `by` names the job and the attempt that made each claim.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from everwhen.errors import ConfigError, WorkSourceError, shown
from everwhen.model.work_item import WorkItem, WorkOutcome, item_of

TIMEOUT = 60.0
LARGEST_ANSWER = 10 * 1024 * 1024
LOOK = 0.5  # seconds between two checks of the size of its output
_SAFE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")


class CommandSource:
    """The work items that a program provides."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._argv = list(argv)
        self._cwd = cwd
        # As for targets, the program inherits only variables that cannot be secrets.
        self._env = {name: os.environ[name] for name in _SAFE if name in os.environ} | dict(env or {})
        self._timeout = timeout

    def fetch_available(self, *, limit: int = 10) -> list[WorkItem]:
        items = self._ask("fetch", {"limit": limit}).get("items") or []
        if not isinstance(items, list):
            raise self._error("fetch", "items is not a list")
        return [self._item("fetch", fields) for fields in items[:limit]]

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        return self._one("claim", {"id": item_id, "by": by})

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        about = {"status": outcome.status, "summary": outcome.summary, "error": outcome.error}
        self._ask("complete", {"id": item_id, **about, "job_id": outcome.job_id})

    def release(self, item_id: str, *, reason: str) -> None:
        self._ask("release", {"id": item_id, "reason": reason})

    def get(self, item_id: str) -> WorkItem | None:
        return self._one("get", {"id": item_id})

    def _one(self, verb: str, question: Mapping[str, Any]) -> WorkItem | None:
        fields = self._ask(verb, question).get("item")
        return None if fields is None else self._item(verb, fields)

    def _item(self, verb: str, fields: Any) -> WorkItem:
        try:
            return item_of(fields, source="command")
        except (AttributeError, TypeError, ValueError) as error:
            raise self._error(verb, f"{shown(fields)} is not a work item: {error}") from error

    def _ask(self, verb: str, question: Mapping[str, Any]) -> dict[str, Any]:
        code, answer, complaint = self._run([*self._argv, verb], json.dumps(question).encode())
        if code != 0:
            said = f"exit code {code}{': ' + shown(complaint) if complaint else ''}"
            raise self._error(verb, said, exit_code=code)
        if not answer.strip() and verb in ("complete", "release"):
            return {}
        try:
            document = json.loads(answer)
        except ValueError as error:
            raise self._error(verb, f"the answer is not valid JSON: {shown(answer)}") from error
        if not isinstance(document, dict):
            raise self._error(verb, f"the answer is not a JSON object: {shown(answer)}")
        return document

    def _run(self, argv: list[str], question: bytes) -> tuple[int, str, str]:
        """Run the program; return its exit code, stdout and stderr.

        It reads and writes files, not pipes: nothing can block, and its output does not accumulate in memory.
        """
        with (
            tempfile.TemporaryFile() as asked,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            asked.write(question)
            asked.seek(0)
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=self._cwd,
                    env=self._env,
                    stdin=asked,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._error(argv[-1], f"cannot start {argv[0]!r}: {error.strerror}") from error
            try:
                code = self._ended(process, argv[-1], (out, err))
            finally:
                _end(process)
            return code, _read(out, LARGEST_ANSWER), _read(err, 1_000)

    def _ended(self, process: subprocess.Popen[bytes], verb: str, files: Sequence[IO[bytes]]) -> int:
        """Return the exit code; raise WorkSourceError when the program runs too long or could fill the disk."""
        for _ in range(max(int(self._timeout / LOOK), 1)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(LOOK, self._timeout))
            if any(os.fstat(file.fileno()).st_size > LARGEST_ANSWER for file in files):
                raise self._error(verb, f"more than {LARGEST_ANSWER} bytes of answer")
        raise self._error(verb, f"no answer within {self._timeout:g}s")

    def _error(self, verb: str, what: str, *, exit_code: int | None = None) -> WorkSourceError:
        return WorkSourceError(f"{self._argv[0]!r}, {verb}: {what}", exit_code=exit_code)


def open_command(fields: Mapping[str, Any], *, also: Mapping[str, str] | None = None) -> CommandSource:
    """Open `{type: command, command: [argv], cwd: …, env: {…}}`; `also` is added to the program's environment."""
    argv = fields.get("command")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise ConfigError("work_source: a command source needs command: [program, argument, …]")
    env = {str(name): str(value) for name, value in (fields.get("env") or {}).items()}
    return CommandSource(argv, cwd=fields.get("cwd"), env={**env, **(also or {})})


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program together with every process that it left running in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(file: Any, most: int) -> str:
    file.seek(0)
    data: bytes = file.read(most)
    return data.decode(errors="replace").strip()
