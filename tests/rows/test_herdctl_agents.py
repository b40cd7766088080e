"""Rows H: herdctl's agents, their prompts and their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.model.defaults import with_defaults
from everwhen.model.group import agent_target, general_fields_of_agent
from everwhen.model.work_item import WorkItem, build_schedule_prompt
from tests.rows.node import WorkingNode
from tests.rows.served import served


def test_h23_the_prompt_is_the_schedules_or_the_default_and_an_item_follows_it() -> None:
    item = WorkItem("7", "Fix the login", "It fails.", source="github", external_id="7")
    assert build_schedule_prompt({"prompt": "Check for ready issues."}) == "Check for ready issues."
    assert build_schedule_prompt({}) == "Execute scheduled task."
    assert build_schedule_prompt({"prompt": "Do:"}, item) == (
        "Do:\n\n## Work Item: Fix the login\n\nIt fails.\n\n"
        "- **Source:** github\n- **ID:** 7\n- **Priority:** medium"
    )


def test_h22_a_run_fetches_an_item_builds_the_prompt_executes_reports_and_computes_the_next(
    working_node: WorkingNode, tmp_path: Path
) -> None:
    (tmp_path / "fix-login.md").write_text("It fails on Mondays.")
    s = working_node.scheduler
    schedule = {
        "type": "interval",
        "interval": "5m",
        "prompt": "Check for ready issues.",
        "work_source": {"type": "directory", "path": str(tmp_path), "when_empty": "skip"},
    }
    agent = {"command": ["cat"], "timezone": "UTC"}
    fields = with_defaults(general_fields_of_agent(schedule), "agent", group=agent)
    s.add("reviewer.check", group="reviewer", target=agent_target("reviewer", agent, schedule), **fields)
    s.tick()
    (claimed,) = s.claim()
    assert s.state("reviewer.check").running_jobs == 1  # marked running
    outcome = working_node.run(claimed)
    s.clock.advance("10m")
    s.settle(claimed, outcome)
    (job,) = s.jobs()
    assert job.result == (
        "Check for ready issues.\n\n## Work Item: fix-login\n\nIt fails on Mondays.\n\n"
        "- **Source:** directory\n- **ID:** fix-login.md\n- **Priority:** medium"
    )
    assert (tmp_path / "done" / "fix-login.md").exists()  # the outcome was reported
    state = s.state("reviewer.check")
    assert state.running_jobs == 0
    assert state.next_run_at == s.clock.now() + 300_000_000  # counted from its end
    s.advance("5m")
    assert s.jobs()[-1].result == "nothing to do: the work source has no item"


def test_h22_a_failed_run_is_reported_as_one(working_node: WorkingNode, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("…")
    source = {"type": "directory", "path": str(tmp_path)}
    agent = {"command": ["false"]}
    target = agent_target("reviewer", agent, {"work_source": source})
    working_node.scheduler.add("reviewer.check", group="reviewer", every="1h", target=target)
    working_node.scheduler.step()
    assert working_node.scheduler.jobs()[0].status == "failed"
    assert (tmp_path / "failed" / "a.md").exists()


def test_h22_agents_have_the_defaults_of_their_section() -> None:
    fields = with_defaults(
        general_fields_of_agent({"type": "interval", "interval": "5m", "prompt": "Look."}), "agent"
    )
    assert fields == {
        "every": "5m",
        "interval_from": "completion",
        "timezone": "local",
        "timeout": "1h",
        "max_concurrent": 1,
    }
    group = {"instances": {"max_concurrent": 3}}
    cron = with_defaults(
        general_fields_of_agent({"type": "cron", "expression": "0 9 * * 1-5"}), "agent", group=group
    )
    assert (cron["cron"], cron["max_concurrent"]) == ("0 9 * * 1-5", 3)
    assert general_fields_of_agent({"type": "chat"})["type"] == "chat"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "must be one of interval, cron, webhook, chat"),
        ({"type": "interval"}, "needs interval"),
        ({"type": "cron"}, "needs cron"),
    ],
)
def test_h6_a_schedule_of_an_agent_says_what_it_is(fields: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        general_fields_of_agent(fields)


FOUR_TYPES = """agents:
  reviewer:
    command: [cat]
    timezone: UTC
    schedules:
      check: {type: interval, interval: 12h, prompt: Check.}
      report: {type: cron, expression: "0 9 * * *", prompt: Report.}
      push: {type: webhook, prompt: Pushed.}
      ask: {type: chat, prompt: Asked.}
"""
TYPES = {"check": "interval", "report": "cron", "push": "webhook", "ask": "chat"}


def test_h6_interval_and_cron_fire_by_themselves_webhook_and_chat_only_when_they_are_called(
    tmp_path: Path,
) -> None:
    with served(tmp_path, file=FOUR_TYPES) as node:
        assert {name: node.schedule(f"reviewer.{name}")["type"] for name in TYPES} == TYPES
        node.scheduler.advance("24h")
        results = {name: [job["result"] for job in node.jobs(f"reviewer.{name}")] for name in TYPES}
        assert results == {"check": ["Check."] * 3, "report": ["Report."], "push": [], "ask": []}
        for name in ("push", "ask"):
            assert node.schedule(f"reviewer.{name}")["next_run_at"] is None
            assert node.scheduler.check_schedule(f"reviewer.{name}").skip_reason == "unsupported_type"
        assert node.admin.post("/hooks/reviewer.push/", {"ref": "main"}).status == 202
        assert node.admin.post("/chat/reviewer.ask/", {"text": "Hello?"}).status == 202
        node.scheduler.advance("5m")
        handled = [node.jobs(f"reviewer.{name}") for name in ("push", "ask")]
        assert [[(job["origin"], job["result"]) for job in jobs] for jobs in handled] == [
            [("webhook", "Pushed.")],
            [("chat", "Asked.")],
        ]
