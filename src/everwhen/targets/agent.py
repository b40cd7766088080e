"""An agent: a command that gets a prompt, built from its schedule and, with a work source, from a work item.

The order of one run: the next item is claimed, the prompt is built, the command runs, the outcome is reported to the
source. In every case a claimed item is completed or released. It is completed when the work took place, successfully
or not (a timeout is a failure, or the item would be retried for ever). It is released when the work did not take
place (cancelled, the node stops, an unexpected error). A report that fails never fails the run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from everwhen.clock import Clock
from everwhen.model import variables
from everwhen.model.cost import NOTHING, amount_text
from everwhen.model.group import MAX_COST, needs_max_cost
from everwhen.model.host_fault import NotBegunError, before_target
from everwhen.model.outcome import Outcome, drifted
from everwhen.model.schedule import Definition
from everwhen.model.work_item import OpenWorkSource, WorkItem, WorkOutcome, WorkSource, build_schedule_prompt
from everwhen.operations.agent_runs import AgentRuns
from everwhen.target import Run
from everwhen.targets.command import is_by_signal, run_process
from everwhen.targets.process import Launch, Processes, environment_of
from everwhen.targets.registry import Host, Resources, aside
from everwhen.targets.reports import private_folder, read_claude
from everwhen.targets.secrets import with_secrets

MCP_FILE = "mcp.json"
PROMPT = "{prompt}"
CLAUDE = "claude"  # of `report`
PROMPTS = ("prompt", "default_prompt")
CANDIDATES = 10

Taken = tuple[WorkSource, WorkItem | None]

log = logging.getLogger("everwhen")
_late: set[asyncio.Task[None]] = set()  # keeps references: the loop may drop a task without any


class AgentTarget:
    """Runs `{"agent", "command": […], "prompt", "default_prompt", "cwd", "env", "report", "work_source": {…}}`.

    A host runs the prompt in place of the command.
    """

    def __init__(
        self,
        sources: Mapping[str, OpenWorkSource],
        clock: Clock,
        processes: Processes | None = None,
        host: Host | None = None,
        agent_runs: AgentRuns | None = None,
    ) -> None:
        self._host = host
        self._agent_runs = agent_runs
        self._sources = sources
        self._clock = clock
        self._processes = processes or Processes()

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why the agent cannot run here; None when it can."""
        has_command = "command" in json.loads(definition.target.spec)
        return None if has_command or self._host else "it has no command, and no host runs it here"

    async def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        fields.pop("secret", None)  # it authenticates callers; a node that runs the agent may lack it
        prompts = {key: fields.pop(key) for key in PROMPTS if key in fields}  # ${NAME} in a prompt is text

        async def perform(resolved: dict[str, Any], run_resolved: Run) -> Outcome:
            return await self._perform({**resolved, **prompts}, run_resolved)

        return await with_secrets(fields, run, perform)

    async def _perform(self, fields: dict[str, Any], run: Run) -> Outcome:
        inbox = fields.get("work_source")
        if inbox is None:
            return await self._execute(fields, run, None)
        open_source = self._sources.get(inbox["type"])
        if open_source is None:
            return drifted(f'there is no work source of type "{inbox["type"]}" on this node')
        self._processes.guardian.begin()
        try:
            with before_target():
                source, item = await _take(open_source, inbox, run)
        except NotBegunError:
            raise
        except Exception as error:  # third-party code and third-party servers
            code = getattr(error, "exit_code", None)
            is_interrupted = isinstance(code, int) and is_by_signal(code)
            return Outcome("failed", error=f"work source: {error}", is_interrupted=is_interrupted)
        if item is not None:
            return await self._work_on(item, source, fields, run)
        if inbox.get("when_empty", "run") == "skip":
            return Outcome("succeeded", result="nothing to do: the work source has no item", cost=NOTHING)
        return await self._execute(fields, run, None)

    async def _work_on(
        self, item: WorkItem, source: WorkSource, fields: Mapping[str, Any], run: Run
    ) -> Outcome:
        try:
            outcome = await self._execute(fields, run, item)
        except BaseException as error:
            reason = f"unexpected error: {error!r}"
            await _report(run, lambda: source.release(item.id, reason=reason))
            raise
        is_timed_out = run.deadline_at is not None and self._clock.now() >= run.deadline_at
        if outcome.host_fault is not None:
            await _report(run, lambda: source.release(item.id, reason="its node could not begin the run"))
        elif outcome.status == "cancelled" and not is_timed_out:
            await _report(run, lambda: source.release(item.id, reason="the run was cancelled"))
        elif outcome.is_interrupted and await run.is_node_stopping():
            await _report(run, lambda: source.release(item.id, reason="its node stops"))
        else:
            done = _work_outcome(outcome, run)
            await _report(run, lambda: source.complete(item.id, done))
        return outcome

    async def _execute(self, fields: Mapping[str, Any], run: Run, item: WorkItem | None) -> Outcome:
        prompt = build_schedule_prompt(fields, item, default=fields.get("default_prompt") or "")
        runs, agent = self._agent_runs, fields.get("agent", "")
        with before_target():
            header, token = (None, None) if runs is None else await self._extras(runs, agent, run)
        if header is not None:
            prompt = f"{header}\n\n{prompt}"
        if self._host is not None:
            return await self._host(fields, run, item, prompt)
        if "command" not in fields:
            return drifted(f'agent "{fields.get("agent")}" has no command, and no host runs it here')
        is_in_argv = any(PROMPT in word for word in fields["command"])
        listed = {**(fields.get("env") or {}), variables.AGENT: fields.get("agent", "")}
        if item is not None:
            listed[variables.WORK_ITEM] = item.external_id or item.id
        if run.max_cost is None and any(MAX_COST in word for word in fields["command"]):
            return Outcome("failed", error=needs_max_cost(agent), is_final=True)
        most = "" if run.max_cost is None else amount_text(run.max_cost.amount)
        reads_output = fields.get("report") == CLAUDE
        with ExitStack() as stack:
            with before_target():
                further = stack.enter_context(self_scheduling(runs, token))
            launch = Launch(
                argv=[_fill(word.replace(MAX_COST, most), prompt) for word in fields["command"]],
                cwd=fields.get("cwd"),
                env=environment_of(run, {**listed, **further}),
                stdin=None if is_in_argv else prompt.encode(errors="replace"),
                is_stdout_whole=reads_output,
                sink=run.output.write,
            )
            return await run_process(
                self._processes, launch, run, read_output=read_claude if reads_output else None
            )

    async def _extras(self, runs: AgentRuns, agent: str, run: Run) -> tuple[str | None, str | None]:
        """Return the header of the prompt and the token of this run; each may be None."""
        return await asyncio.wrap_future(
            aside(lambda: (runs.header_for(run), None if self._host else runs.token_for(agent, run)))
        )


@contextmanager
def self_scheduling(runs: AgentRuns | None, token: str | None) -> Iterator[dict[str, str]]:
    """Yield the variables with which a run schedules itself, and a file that configures its MCP client; none without a
    token. The file is private, and is gone when the run is over."""
    url = None if runs is None or token is None else runs.address()
    if runs is None or token is None or url is None:
        yield {}
        return
    with private_folder(MCP_FILE) as folder:
        path = Path(folder) / MCP_FILE
        path.touch(0o600)
        path.write_text(json.dumps(mcp_config(url, token, is_http=runs.serves_mcp())))
        yield {variables.URL: url, variables.TOKEN: token, variables.MCP_CONFIG: str(path)}


def mcp_config(url: str, token: str, *, is_http: bool) -> dict[str, Any]:
    """Return the configuration of an MCP client: over HTTP where the API serves it, else with `everwhen mcp`."""
    headers = {"Authorization": f"Bearer {token}"}
    by_http = {"type": "http", "url": f"{url}/api/v1/mcp", "headers": headers}
    program = {"command": sys.executable, "args": ["-m", "everwhen", "mcp"]}
    by_program = {**program, "env": {variables.URL: url, variables.TOKEN: token}}
    return {"mcpServers": {"everwhen": by_http if is_http else by_program}}


def _fill(word: str, prompt: str) -> str:
    """Insert the prompt into an argument.

    The prompt comes from others (work items among them) and must not become an option of the agent, such as one that
    lifts its permissions: a leading blank makes it plain text for every program.
    """
    filled = word.replace(PROMPT, prompt)
    return f" {filled}" if word.startswith(PROMPT) and filled.startswith("-") else filled


async def _take(open_source: OpenWorkSource, fields: Mapping[str, Any], run: Run) -> Taken:
    """Claim the next item. When the run is cancelled meanwhile, the claim is released afterwards."""
    by = f"{run.job_id}.{run.attempt}"

    def take() -> Taken:
        source = open_source(fields)
        for item in source.fetch_available(limit=CANDIDATES):
            claimed = source.claim(item.id, by=by)
            if claimed is not None:
                return source, claimed
        return source, None

    taking = asyncio.wrap_future(aside(take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(partial(_give_back, run))
        raise


def _give_back(run: Run, taking: asyncio.Future[Taken]) -> None:
    if taking.cancelled() or taking.exception() is not None:
        return
    source, item = taking.result()
    if item is not None:
        report = _report(run, lambda: source.release(item.id, reason="the run was cancelled"))
        task = asyncio.get_running_loop().create_task(report)
        _late.add(task)
        task.add_done_callback(_late.discard)


async def _report(run: Run, report: Callable[[], None]) -> None:
    """Report to the source; a failure is only recorded."""
    try:
        await asyncio.wrap_future(aside(report))
    except Exception as error:
        text = f"the outcome was not reported to the work source: {error}"
        log.warning("%s: %s", run.job_id, text)
        run.output.write("log", f"{text}\n".encode(errors="replace"))


def _work_outcome(outcome: Outcome, run: Run) -> WorkOutcome:
    if outcome.status == "succeeded":
        return WorkOutcome("success", summary=outcome.result or "", job_id=run.job_id)
    error = outcome.error or outcome.status
    message = f"timed out: {error}" if outcome.status == "cancelled" else error
    return WorkOutcome("failure", error=message, job_id=run.job_id)


def make_target(resources: Resources) -> AgentTarget:
    return AgentTarget(
        resources.sources,
        resources.clock,
        resources.processes,
        resources.host,
        agent_runs=resources.agent_runs,
    )
