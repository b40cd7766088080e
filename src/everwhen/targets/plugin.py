"""A plugin: one process per job, a request on its standard input, a response on its standard output.

The plugin's definition is read when the job runs: a plugin or a command that was removed after the schedule was
declared stops the schedule until it is back (R7). State that the plugin keeps is part of the outcome, and is
written by the transaction that settles the job.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everwhen.errors import ManifestError
from everwhen.model.manifest import Plugins, missing_config
from everwhen.model.outcome import Outcome, PluginUpdate, drifted
from everwhen.model.payload_schema import payload_faults
from everwhen.model.plugin_schedule import memory_of, merged_payload, plugin_drift
from everwhen.model.schedule import Definition
from everwhen.model.target_kinds import DEFAULT_COMMAND
from everwhen.target import Run
from everwhen.targets.command import (
    FINAL_EXIT,
    LOST,
    SHOWN,
    failure,
    is_by_signal,
    last_lines,
    not_started,
    signal_name,
)
from everwhen.targets.environment import safe_base
from everwhen.targets.plugin_protocol import Response, first_bytes, request_of, response_of
from everwhen.targets.process import Launch, Process, Processes
from everwhen.targets.resources import Resources, StateOf
from everwhen.targets.secrets import with_secrets


@dataclass(frozen=True, slots=True)
class _Ready:
    """A plugin that can be started, and its request."""

    entrypoint: str
    request: bytes


class PluginTarget:
    """Runs `{"name": …, "command": …, "config": {…}}`."""

    def __init__(self, plugins: Plugins, state_of: StateOf, processes: Processes | None = None) -> None:
        self._plugins = plugins
        self._state_of = state_of
        self._processes = processes or Processes()

    def kill(self) -> None:
        """End every process at once, after a second request to stop."""
        self._processes.kill()

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
        ready = await asyncio.to_thread(self._prepare, fields, run)  # disk and database
        if isinstance(ready, Outcome):
            return ready
        launch = Launch(
            argv=[ready.entrypoint],
            env=safe_base(),
            stdin=ready.request,
            is_stdout_whole=True,
            sink=lambda stream, data: run.output.write(stream, data) if stream == "stderr" else None,
        )
        try:
            process = self._processes.start(launch)
        except (OSError, ValueError) as error:
            return not_started(ready.entrypoint, error)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            return Outcome("cancelled", error=last_lines(process))
        return _outcome(memory_of(fields), code, process, run)

    def _prepare(self, fields: Mapping[str, Any], run: Run) -> _Ready | Outcome:
        """Return what to start; or, if the declared plugin or command no longer exists, the outcome for that."""
        name = fields["name"]
        try:
            plugin = self._plugins.find(name)
        except ManifestError as error:
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
        return _Ready(plugin.entrypoint, request)


def _outcome(memory: str, code: int, process: Process, run: Run) -> Outcome:
    """Return the outcome in the response, unless the end of the process invalidates it.

    A response counts whatever the exit code, except for 78 (final) and an end by signal.
    """
    response = _response(process)
    for line in response.logs:
        run.output.write("log", line.encode(errors="replace") + b"\n")
    error = _error(response, code, process)
    if error and process.was_lost:
        return LOST
    if error:
        is_final = code == FINAL_EXIT or not response.may_retry
        return Outcome(
            "failed",
            error=error,
            is_final=is_final,
            events=response.events,
            is_interrupted=is_by_signal(code),
        )
    updates = response.state_updates
    also = None if updates is None else PluginUpdate(memory, json.dumps(updates))
    return Outcome("succeeded", result=response.result, also=also, events=response.events)


def _error(response: Response, code: int, process: Process) -> str | None:
    """Return why the run failed; None when it did not."""
    if response.fault is not None:
        return _misanswered(response.fault, code, process)
    if code < 0 or code == FINAL_EXIT:
        return response.error or failure(code, process)
    if not response.is_ok:
        return response.error or "the plugin reports an error without a message"
    return None


def _misanswered(fault: str, code: int, process: Process) -> str:
    ended = f"exit code {code}" if code > 0 else f"killed by {signal_name(-code)}" if code else ""
    return "; ".join(part for part in (ended, fault, process.stderr.last(SHOWN)) if part)


def _response(process: Process) -> Response:
    output = process.stdout.whole
    if output is None:
        head = first_bytes(process.stdout.head)
        return Response(False, fault=f"{process.stdout.total} bytes on standard output are too many: {head}")
    return response_of(output)


def make_target(resources: Resources) -> PluginTarget:
    return PluginTarget(resources.plugins, resources.plugin_state, resources.processes)
