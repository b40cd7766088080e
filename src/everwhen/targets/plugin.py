"""A plugin: one process per job, a request on its standard input, a response on its standard output.

The plugin's definition is read when the job runs: a plugin or a command that was removed after the schedule was
declared stops the schedule until it is back. State that the plugin keeps is part of the outcome, and is
written by the transaction that settles the job.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everwhen.errors import CostError, ManifestError
from everwhen.model.cost import Cost, cost_of
from everwhen.model.host_fault import before_target, host_fault_of
from everwhen.model.instants import rfc3339_text
from everwhen.model.outcome import Outcome, PluginUpdate, drifted
from everwhen.model.payload import payload_faults
from everwhen.model.plugin import PROTOCOL, Plugins, memory_of, merged_payload, missing_config, plugin_drift
from everwhen.model.schedule import Definition
from everwhen.model.target_kinds import DEFAULT_COMMAND
from everwhen.target import Run
from everwhen.targets.command import (
    FINAL_EXIT,
    LOST,
    SHOWN,
    end_of_process,
    failure,
    is_by_signal,
    signal_name,
)
from everwhen.targets.process import Launch, Process, Processes, safe_base
from everwhen.targets.registry import Resources, StateOf
from everwhen.targets.reports import take_report
from everwhen.targets.reports import variables as report_variables
from everwhen.targets.secrets import with_secrets


class PluginTarget:
    """Runs `{"name": …, "command": …, "config": {…}}`."""

    def __init__(self, plugins: Plugins, state_of: StateOf, processes: Processes | None = None) -> None:
        self._plugins = plugins
        self._state_of = state_of
        self._processes = processes or Processes()

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why the plugin cannot run a schedule; None when it can."""
        try:
            plugin = self._plugins.find(json.loads(definition.target.spec)["name"])
        except ManifestError as error:
            return str(error)
        return plugin_drift(schedule_id, definition, None if plugin is None else plugin.manifest)

    async def run(self, spec: str, run: Run) -> Outcome:
        return await with_secrets(json.loads(spec), run, self._perform)

    async def _perform(self, fields: dict[str, Any], run: Run) -> Outcome:
        with before_target():
            ready = await asyncio.to_thread(self._prepare, fields, run)  # disk and database
        if isinstance(ready, Outcome):
            return ready
        entrypoint, request = ready
        path = self._processes.reports.new_path()
        launch = Launch(
            argv=[entrypoint],
            env={**safe_base(), **report_variables(run, path)},
            stdin=request,
            is_stdout_whole=True,
            sink=lambda stream, data: run.output.write(stream, data) if stream == "stderr" else None,
        )
        ended = await end_of_process(self._processes, launch)
        report = take_report(path)
        outcome = ended if isinstance(ended, Outcome) else _outcome(memory_of(fields), *ended, run)
        return outcome if report is None else report.added_to(outcome, run)

    def _prepare(self, fields: Mapping[str, Any], run: Run) -> tuple[str, bytes] | Outcome:
        """Return what to start and its request; or the outcome, if the declared plugin or command no longer exists."""
        name = fields["name"]
        try:
            plugin = self._plugins.find(name)
        except ManifestError as error:
            if host_fault_of(error) is not None:
                raise
            return drifted(str(error))
        if plugin is None:
            return drifted(f'plugin "{name}" is not installed')
        wanted = fields.get("command") or DEFAULT_COMMAND
        command = plugin.manifest.command(wanted)
        if command is None:
            return drifted(f'plugin "{name}" does not have the command "{wanted}" any more')
        config = fields.get("config") or {}
        if missing := missing_config(plugin.manifest, config):
            return drifted(f'plugin "{name}" requires config: {", ".join(missing)}')
        payload = merged_payload(command, run.payload)
        if faults := payload_faults(command.input_schema, payload):
            return Outcome("failed", error="; ".join(faults), is_final=True)
        state = self._state_of(memory_of(fields))
        request = request_of(run, command=command.name, config=config, state=state, payload=payload)
        return plugin.entrypoint, request


def _outcome(memory: str, process: Process, code: int, run: Run) -> Outcome:
    """Return the outcome in the response, unless the end of the process invalidates it.

    A response counts whatever the exit code, except for 78 (final) and an end by signal.
    """
    response = _response(process)
    for line in response.logs:
        run.output.write("log", line.encode(errors="replace") + b"\n")
    cost = _cost(response, run)
    error = _error(response, code, process)
    if error and process.was_lost:
        return LOST
    if error:
        return Outcome(
            "failed",
            error=error,
            is_final=code == FINAL_EXIT or not response.may_retry,
            events=response.events,
            is_interrupted=is_by_signal(code),
            cost=cost,
        )
    updates = response.state_updates
    also = None if updates is None else PluginUpdate(memory, json.dumps(updates))
    return Outcome("succeeded", result=response.result, also=also, events=response.events, cost=cost)


def _cost(response: Response, run: Run) -> Cost | None:
    """Return the cost in the response; one that is not valid is noted in the output."""
    if response.cost is None:
        return None
    try:
        return cost_of(response.cost)
    except CostError as error:
        run.output.write("log", f"cost: {error}\n".encode(errors="replace"))
        return None


def _error(response: Response, code: int, process: Process) -> str | None:
    """Return why the run failed; None when it did not."""
    if response.fault is not None:
        ended = f"exit code {code}" if code > 0 else f"killed by {signal_name(-code)}" if code else ""
        return "; ".join(part for part in (ended, response.fault, process.stderr.last(SHOWN)) if part)
    if code < 0 or code == FINAL_EXIT:
        return response.error or failure(code, process)
    if not response.is_ok:
        return response.error or "the plugin reports an error without a message"
    return None


def _response(process: Process) -> Response:
    if (output := process.stdout.whole) is not None:
        return response_of(output)
    text = f"{process.stdout.total} bytes on standard output are too many: {first_bytes(process.stdout.head)}"
    return Response(False, fault=text)


def make_target(resources: Resources) -> PluginTarget:
    return PluginTarget(resources.plugins, resources.plugin_state, resources.processes)


# Protocol 2 of plugins: one JSON request on a plugin's standard input, one JSON response on its standard output. Bytes
# in, values out: nothing runs here. Output that is not a response is a failure that shows its first bytes.


FIRST_BYTES = 200
LONGEST_TEXT = 4_096
MOST_EVENTS = 256 * 1024  # characters; as much as is kept of a stream


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a plugin. `fault`: why it does not follow this protocol."""

    is_ok: bool
    result: str = ""
    error: str = ""
    may_retry: bool = True
    state_updates: Mapping[str, Any] | None = None
    logs: tuple[str, ...] = ()
    events: str = ""
    cost: Any = None
    fault: str | None = None


def request_of(
    run: Run,
    *,
    command: str,
    config: Mapping[str, Any],
    state: Mapping[str, Any],
    payload: Mapping[str, Any],
) -> bytes:
    """Build the request for one run, on one line."""
    about = "schedule_id schedule_name slot_at attempt origin catch_up repeat_number".split()
    request = {
        "protocol": PROTOCOL,
        "job_id": run.job_id,
        "command": command,
        "config": config,
        "state": state,
        "payload": payload,
        "context": {key: getattr(run, key) for key in about} | {"slot_at": rfc3339_text(run.slot_at)},
        "deadline_at": None if run.deadline_at is None else rfc3339_text(run.deadline_at),
    }
    return json.dumps(request).encode() + b"\n"


def response_of(output: bytes) -> Response:
    """Parse the response that a plugin printed; anything else is a fault that shows the output."""
    if not output.strip():
        return Response(False, fault="nothing on standard output")
    try:
        document = json.loads(output, parse_constant=_refuse)
    except (ValueError, RecursionError):  # incomplete JSON, garbage, two documents, bytes that are not text
        return Response(False, fault=f"standard output is not valid JSON: {first_bytes(output)}")
    if not isinstance(document, dict) or document.get("status") not in ("ok", "error"):
        return Response(False, fault=f'standard output has no status "ok" or "error": {first_bytes(output)}')
    updates = document.get("state_updates")
    if updates is not None and not isinstance(updates, dict):
        return Response(False, fault=f"state_updates is not an object: {first_bytes(output)}")
    return Response(
        is_ok=document["status"] == "ok",
        result=_text(document.get("result")),
        error=_text(document.get("error")),
        may_retry=document.get("retry") is not False,
        state_updates=updates or None,
        logs=_logs(document.get("logs")),
        events=_events(document.get("events")),
        cost=document.get("cost"),
    )


def first_bytes(output: bytes) -> str:
    """Return the beginning of an invalid response in printable form.

    >>> first_bytes(b"Traceback")
    "b'Traceback'"
    """
    more = f" … ({len(output)} bytes)" if len(output) > FIRST_BYTES else ""
    return f"{bytes(output[:FIRST_BYTES])!r}{more}"


def _text(value: Any) -> str:
    """Return a value as text: the protocol expects a sentence, but a plugin may also respond with an object."""
    if value is None:
        return ""
    text = (value if isinstance(value, str) else json.dumps(value))[:LONGEST_TEXT]
    # Half a surrogate pair and a NUL are valid in JSON, and no database accepts them.
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _logs(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(f"{e.get('level', 'info')}: {e.get('message', '')}" for e in value if isinstance(e, dict))


def _events(value: Any) -> str:
    """Return the emitted events, one line of JSON each; the last line counts those that were too many to keep."""
    events = value if isinstance(value, list) else [] if value is None else [value]
    lines, size = [], 0
    for number, event in enumerate(events):
        line = json.dumps(event)
        size += len(line) + 1
        if size > MOST_EVENTS:
            lines.append(json.dumps({"not_kept": len(events) - number, "most_characters": MOST_EVENTS}))
            break
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)
