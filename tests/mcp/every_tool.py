"""One conversation that calls every tool with good and with bad arguments, over whatever carries it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp import Client

SOON: dict[str, Any] = {
    "name": "Tea",
    "purpose": "The tea is ready.",
    "after": "20m",
    "agent": "bot",
    "prompt": "Make tea.",
}
NOBODY = "list_schedules lists what exists."


class EveryTool:
    """The calls of one client, which have to go as expected."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._good: set[str] = set()
        self._bad: set[str] = set()

    async def good(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result.content)
        self._good.add(tool)
        found: dict[str, Any] = result.structured_content
        return found

    async def bad(self, tool: str, sentence: str, /, **arguments: Any) -> None:
        result = await self._client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        assert result.is_error and sentence in content.text, (tool, content.text)
        self._bad.add(tool)

    async def check_all(self) -> None:
        names = {tool.name for tool in (await self._client.list_tools()).tools}
        assert names == self._good == self._bad and len(names) == 13


async def call_every_tool(client: Client, agent: str = "bot") -> dict[str, Any]:
    """Lead one schedule through its life; return the context, and the answer to its creation."""
    tools, soon = EveryTool(client), {**SOON, "agent": agent}
    context = await tools.good("get_context")
    await tools.bad("get_context", "get_context takes no arguments.", x=1)
    assert (await tools.good("preview_schedule", **soon))["result"] == "preview"
    await tools.bad("preview_schedule", '"purpose" is needed', **{**soon, "purpose": None})
    made = await tools.good("create_schedule", **soon)
    await tools.bad("create_schedule", 'did you mean "timezone"?', **soon, tz="CET")
    name = made["id"]
    (listed,) = (await tools.good("list_schedules", q="Tea"))["schedules"]
    assert listed["id"] == name
    await tools.bad("list_schedules", '"status" must be one of', status="broken")
    assert (await tools.good("get_schedule", id=name))["run"]["agent"]["prompt"] == "Make tea."
    await tools.bad("get_schedule", NOBODY, id="nobody")
    await tools.good("list_upcoming", hours=1)
    await tools.bad("list_upcoming", '"hours" must be at least 1.', hours=0)
    assert (await tools.good("explain_schedule", id=name))["sentence"]
    await tools.bad("explain_schedule", "at", id=name, at="yesterday")
    changed = await tools.good("update_schedule", id=name, revision=1, name="Green tea")
    assert changed["revision"] == 2
    await tools.bad("update_schedule", "revision 2, not 1", id=name, revision=1, name="Black tea")
    if made["result"] == "created":
        assert (await tools.good("pause_schedule", id=name, note="Coffee."))["status"] == "paused"
        assert (await tools.good("resume_schedule", id=name))["status"] == "active"
    await tools.bad("pause_schedule", NOBODY, id="nobody")
    await tools.bad("resume_schedule", '"id" must be a text.', id=3)
    run = (await tools.good("trigger_schedule", id=name, request_id="one"))["run"]
    assert (await tools.good("trigger_schedule", id=name, request_id="one"))["run"]["run_id"] == run["run_id"]
    await tools.bad("trigger_schedule", '"request_id" is needed', id=name)
    (one,) = (await tools.good("list_runs", run_id=run["run_id"]))["runs"]
    assert one["output"]["untrusted"] is True
    await tools.bad("list_runs", 'give either "schedule"', schedule=name, run_id=run["run_id"])
    assert (await tools.good("delete_schedule", id=name))["was_there"] is True
    await tools.bad("delete_schedule", 'did you mean "id"?', ids=[name])
    await tools.check_all()
    return {"context": context, "made": made}
