"""Runs each kind of target in a process whose host has no descriptor left, and prints what they report."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

import everwhen.targets.http_exchange  # noqa: F401  # not while there is no descriptor
from everwhen.engine.call_executor import CallExecutor
from everwhen.model.group import Workflow
from everwhen.model.host_fault import NotBegunError
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Target as Declared
from everwhen.target import Target
from everwhen.targets.agent import AgentTarget
from everwhen.targets.command import CommandTarget
from everwhen.targets.guardian import Guardian
from everwhen.targets.http import HttpTarget
from everwhen.targets.plugin import PluginTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.process import Processes
from everwhen.targets.python_call import PythonTarget
from everwhen.targets.workflow import WorkflowRegistry, WorkflowTarget
from everwhen.testing.manual import ManualClock
from everwhen.work_sources.directory import open_directory
from tests.targets.running import a_run

CLOCK = ManualClock("2026-01-05T08:00:00Z")


def specs_of(folder: Path, url: str) -> dict[str, tuple[Target, dict[str, Any]]]:
    processes, hands = Processes(guardian=Guardian()), CallExecutor(4)
    http = HttpTarget(CLOCK.now, allow_private_urls=True)
    workflows = WorkflowRegistry()
    workflows.register(Workflow("1", Declared("http", json.dumps({"url": url}))))
    sources = {"directory": open_directory}
    agent = AgentTarget(sources, CLOCK, processes)
    inbox = {"type": "directory", "path": str(folder / "inbox")}
    return {
        "command": (CommandTarget(processes), {"argv": ["/bin/true"]}),
        "plugin": (
            PluginTarget(PluginFolders([folder / "plugins"]), lambda _plugin: {}, processes),
            {"name": "withings", "command": "poll"},
        ),
        "agent": (agent, {"agent": "a", "command": ["/bin/true"], "prompt": "p"}),
        "agent with work": (
            agent,
            {"agent": "a", "command": ["/bin/true"], "prompt": "p", "work_source": inbox},
        ),
        "isolated": (PythonTarget(hands, processes), {"function": "os:getpid", "isolate": True}),
        "imported": (PythonTarget(hands, processes), {"function": "nturl2path:url2pathname", "args": ["/a"]}),
        "http": (http, {"url": url}),
        "http by name": (http, {"url": url.replace("127.0.0.1", "localhost.test")}),
        "workflow": (WorkflowTarget(workflows, {"http": http}, CLOCK), {"workflow_id": "1"}),
    }


async def reported(target: Target, spec: dict[str, Any]) -> Outcome | NotBegunError:
    try:
        outcome: Outcome = await target.run(json.dumps(spec), a_run())  # type: ignore[misc]
        return outcome
    except NotBegunError as error:
        return error


def fault_of(outcome: Outcome | NotBegunError) -> str | None:
    return outcome.fault if isinstance(outcome, NotBegunError) else outcome.host_fault


async def main(folder: Path, url: str, *names: str) -> None:
    targets = specs_of(folder, url)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    found: dict[str, list[str | None]] = {}
    for name in names:
        target, spec = targets[name]
        lowest = next(number for number in range(1 << 16) if not Path(f"/proc/self/fd/{number}").is_symlink())
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        starved = await reported(target, spec)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        after = await reported(target, spec)
        status = after.status if isinstance(after, Outcome) else str(after)
        found[name] = [fault_of(starved), str(starved), status]
    await targets["http"][0].close()  # type: ignore[attr-defined]
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
