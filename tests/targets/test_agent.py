"""Agents as real processes, with items from real work sources."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.cost import NOTHING
from everwhen.model.outcome import Outcome
from everwhen.model.work_item import WorkItem, WorkOutcome, WorkSource
from everwhen.targets.agent import AgentTarget
from everwhen.testing import ManualClock
from everwhen.work_sources.directory import open_directory
from tests.targets.running import Kept, a_run, perform, until_async

ECHO = ["sh", "-c", 'cat; echo " for $EVERWHEN_AGENT $EVERWHEN_WORK_ITEM"']
CLOCK = ManualClock()


class Inbox:
    """A source that notes what it is told."""

    def __init__(self, *items: WorkItem, fails: str = "") -> None:
        self.items = list(items)
        self.fails = fails
        self.reported: list[tuple[Any, ...]] = []
        self.gate = threading.Event()
        self.gate.set()

    def fetch_available(self, *, limit: int = 10) -> list[WorkItem]:
        self._may_fail("fetch")
        return self.items[:limit]

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        self.reported.append(("claiming", item_id))
        self.gate.wait(30)
        self._may_fail("claim")
        found = [item for item in self.items if item.id == item_id and item.title != "taken"]
        self.reported.append(("claim", item_id, by))
        return found[0] if found else None

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        self._may_fail("complete")
        self.reported.append(("complete", item_id, outcome))

    def release(self, item_id: str, *, reason: str) -> None:
        self._may_fail("release")
        self.reported.append(("release", item_id, reason))

    def get(self, item_id: str) -> WorkItem | None:
        return None

    def _may_fail(self, verb: str) -> None:
        if self.fails == verb:
            raise OSError("the inbox is on fire")


def ask(
    command: list[str],
    *,
    inbox: WorkSource | None = None,
    when_empty: str = "run",
    keys: Mapping[str, Any] | None = None,
    **how: Any,
) -> Outcome:
    sources = {"directory": open_directory} | ({"inbox": lambda _words: inbox} if inbox else {})
    spec: dict[str, Any] = {"agent": "reviewer", "command": command, "prompt": "Look.", **(keys or {})}
    if inbox is not None:
        spec["work_source"] = {"type": "inbox", "when_empty": when_empty}
    return perform(AgentTarget(sources, CLOCK), spec, **how)


ITEM = WorkItem("7", "Fix it", "It fails.", source="inbox", external_id="#7")


# -- prompts --


def test_the_prompt_is_on_standard_input() -> None:
    assert ask(["cat"]) == Outcome("succeeded", result="Look.")


def test_the_prompt_stands_where_the_command_wants_it() -> None:
    assert ask(["echo", "say: {prompt}", "twice: {prompt}"]).result == "say: Look. twice: Look."


@pytest.mark.parametrize("prompt", ["--dangerously-skip-permissions", "-x", "--", "-"])
def test_a_prompt_is_never_an_option_of_the_agent(prompt: str) -> None:
    """A real parser of options gets it as an argument: what is no argument it would refuse."""
    program = "import argparse; p = argparse.ArgumentParser(); p.add_argument('-p'); p.add_argument('text'); "
    program += "print(repr(p.parse_args().text))"
    outcome = ask([sys.executable, "-c", program, "-p", "fast", "{prompt}"], keys={"prompt": prompt})
    assert outcome == Outcome("succeeded", result=repr(f" {prompt}"))
    assert ask(
        [sys.executable, "-c", "import sys; print(sys.argv[1])", "--ask={prompt}"], keys={"prompt": prompt}
    ) == (Outcome("succeeded", result=f"--ask={prompt}"))
    assert ask(["cat"], keys={"prompt": prompt}).result == prompt


def test_a_work_item_gives_the_agent_no_option_either() -> None:
    item = replace(ITEM, title="--yolo")
    outcome = ask(
        [sys.executable, "-c", "import sys; print(repr(sys.argv[1][:2]))", "{prompt}"],
        inbox=Inbox(item),
        keys={"prompt": "--", "default_prompt": ""},
    )
    assert outcome == Outcome("succeeded", result="' -'")


def test_without_a_prompt_of_its_own_the_agents_default_is_taken() -> None:
    assert ask(["cat"], keys={"prompt": None, "default_prompt": "Default."}).result == "Default."
    assert ask(["cat"], keys={"prompt": None}).result == "Execute scheduled task."


def test_the_run_the_agent_and_its_own_variables_are_in_the_environment(tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo "$EVERWHEN_JOB_ID $EVERWHEN_PAYLOAD $EVERWHEN_AGENT $MODE $(pwd)"']
    outcome = ask(command, keys={"env": {"MODE": "fast"}, "cwd": str(tmp_path)}, run=a_run(n=1))
    assert outcome.result == f'sched-abc-n1-rc0 {{"n": 1}} reviewer fast {tmp_path}'


def test_an_agent_that_fails_fails_its_run() -> None:
    assert ask(["sh", "-c", "echo no luck >&2; exit 1"]) == Outcome("failed", error="exit code 1: no luck")


def test_a_program_that_is_not_there_fails_its_run() -> None:
    assert "cannot start" in (ask(["no-such-agent"]).error or "")


def test_references_are_resolved_in_its_variables_and_left_alone_in_its_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "hush-hush")
    keys = {"prompt": "Explain ${API_KEY}.", "env": {"KEY": "${API_KEY}"}}
    outcome = ask(["sh", "-c", 'cat; echo " $KEY ${#KEY}"'], keys=keys)
    assert outcome.result == "Explain ${API_KEY}. *** 9"


# -- items --


def test_an_item_is_claimed_worked_on_and_completed() -> None:
    inbox = Inbox(ITEM)
    outcome = ask(ECHO, inbox=inbox)
    assert outcome.status == "succeeded"
    assert "## Work Item: Fix it" in (outcome.result or "")
    assert (outcome.result or "").endswith("for reviewer #7")
    assert inbox.reported[1] == ("claim", "7", "sched-abc-n1-rc0.1")
    verb, item_id, done = inbox.reported[2]
    assert (verb, item_id, done.status, done.job_id) == ("complete", "7", "success", "sched-abc-n1-rc0")
    assert done.summary == outcome.result


def test_an_item_that_somebody_else_has_is_passed_over() -> None:
    inbox = Inbox(WorkItem("6", "taken"), ITEM)
    assert "Fix it" in (ask(["cat"], inbox=inbox).result or "")


def test_work_that_failed_is_completed_as_a_failure() -> None:
    inbox = Inbox(ITEM)
    assert ask(["sh", "-c", "exit 3"], inbox=inbox).status == "failed"
    assert inbox.reported[-1] == (
        "complete",
        "7",
        WorkOutcome("failure", error="exit code 3", job_id="sched-abc-n1-rc0"),
    )


def test_an_empty_inbox_runs_the_prompt_alone_or_skips() -> None:
    assert ask(["cat"], inbox=Inbox()).result == "Look."
    skipped = ask(["false"], inbox=Inbox(), when_empty="skip")
    said = "nothing to do: the work source has no item"
    assert skipped == Outcome("succeeded", result=said, cost=NOTHING)


def test_a_report_that_fails_never_fails_the_run() -> None:
    kept = Kept()
    outcome = ask(["cat"], inbox=Inbox(ITEM, fails="complete"), run=a_run(output=kept))
    assert outcome.status == "succeeded"
    assert kept.text("log") == "the outcome was not reported to the work source: the inbox is on fire\n"


@pytest.mark.parametrize("verb", ["fetch", "claim"])
def test_a_source_that_fails_fails_the_run_and_may_be_tried_again(verb: str) -> None:
    outcome = ask(["cat"], inbox=Inbox(ITEM, fails=verb))
    assert outcome == Outcome("failed", error="work source: the inbox is on fire")


def test_a_source_that_nobody_knows_ends_the_schedule() -> None:
    outcome = ask(["cat"], keys={"work_source": {"type": "carrier-pigeon"}})
    assert outcome.invalidates
    assert outcome.error == 'there is no work source of type "carrier-pigeon" on this node'


def test_an_unexpected_error_releases_the_item() -> None:
    inbox = Inbox(ITEM)
    outcome = ask(["cat"], inbox=inbox, keys={"env": ["no", "mapping"]})
    assert outcome.status == "failed"
    verb, item_id, reason = inbox.reported[-1]
    assert (verb, item_id) == ("release", "7")
    assert reason.startswith("unexpected error: ")


def test_a_cancelled_run_releases_its_item(tmp_path: Path) -> None:
    inbox, begun = Inbox(ITEM), tmp_path / "begun"
    outcome = ask(["sh", "-c", f"touch {begun}; exec sleep 600"], inbox=inbox, cancel_when=begun.exists)
    assert outcome.status == "cancelled"
    assert inbox.reported[-1] == ("release", "7", "the run was cancelled")


def test_a_run_that_is_out_of_time_has_failed_with_its_item() -> None:
    inbox = Inbox(ITEM)
    run = replace(a_run(2.0), deadline_at=CLOCK.now())
    assert ask(["sleep", "600"], inbox=inbox, run=run).status == "timed_out"
    verb, _, done = inbox.reported[-1]
    assert (verb, done.status) == ("complete", "failure")
    assert done.error.startswith("timed out")


def test_a_claim_that_comes_after_the_cancel_is_given_back() -> None:
    inbox = Inbox(ITEM)
    inbox.gate.clear()
    spec = json.dumps({"command": ["cat"], "work_source": {"type": "inbox"}})

    async def cancel_while_it_claims() -> None:
        target = AgentTarget({"inbox": lambda _words: inbox}, CLOCK)
        task = asyncio.create_task(target.run(spec, a_run()))
        await until_async(lambda: bool(inbox.reported))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        inbox.gate.set()  # the source answers when nobody waits any more
        await until_async(lambda: ("release", "7", "the run was cancelled") in inbox.reported)

    asyncio.run(cancel_while_it_claims())


def test_a_source_that_hangs_keeps_no_other_agent_waiting() -> None:
    hanging, quick = Inbox(ITEM), Inbox(ITEM)
    hanging.gate.clear()
    sources = {"hanging": lambda _words: hanging, "quick": lambda _words: quick}

    async def run_beside() -> None:
        target = AgentTarget(sources, CLOCK)
        specs = [json.dumps({"command": ["cat"], "work_source": {"type": kind}}) for kind in sources]
        stuck = [asyncio.create_task(target.run(specs[0], a_run())) for _ in range(50)]
        await until_async(lambda: len(hanging.reported) == 50)
        assert (await target.run(specs[1], a_run())).status == "succeeded"
        hanging.gate.set()
        await asyncio.gather(*stuck)

    asyncio.run(run_beside())


def test_a_directory_is_emptied_one_item_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(f"do {name}")
    keys = {"work_source": {"type": "directory", "path": str(tmp_path), "when_empty": "skip"}}
    assert "do a" in (ask(["cat"], keys=keys).result or "")
    assert ask(["false"], keys=keys).status == "failed"
    assert (ask(["cat"], keys=keys).result or "").startswith("nothing to do")
    assert (tmp_path / "done" / "a.md").read_text() == "do a"
    assert (tmp_path / "failed" / "b.md").read_text() == "do b"


def test_an_inbox_that_is_not_there_fails_the_run(tmp_path: Path) -> None:
    keys = {"work_source": {"type": "directory", "path": str(tmp_path / "nowhere")}}
    assert "there is no directory" in (ask(["cat"], keys=keys).error or "")
