from __future__ import annotations

from types import SimpleNamespace

import pytest

from everwhen.model.work_item import WorkItem, build_schedule_prompt, item_of

ITEM = WorkItem(
    id="inbox/7",
    title="Fix the login",
    description="It fails on Mondays.\n",
    source="github",
    external_id="7",
    priority="high",
    labels=("bug", "auth"),
    url="https://example.org/7",
)


def test_an_item_follows_the_prompt_with_everything_that_is_known_of_it() -> None:
    assert build_schedule_prompt({"prompt": "Do this:"}, ITEM) == (
        "Do this:\n\n"
        "## Work Item: Fix the login\n\n"
        "It fails on Mondays.\n\n"
        "- **Source:** github\n"
        "- **ID:** 7\n"
        "- **Priority:** high\n"
        "- **Labels:** bug, auth\n"
        "- **URL:** https://example.org/7"
    )


def test_what_is_not_known_of_an_item_is_left_out() -> None:
    prompt = build_schedule_prompt({"prompt": "Do this:"}, WorkItem(id="a", title="A", source="directory"))
    assert (
        prompt
        == "Do this:\n\n## Work Item: A\n\n- **Source:** directory\n- **ID:** a\n- **Priority:** medium"
    )


def test_the_default_of_the_agent_comes_after_the_prompt_of_the_schedule() -> None:
    assert build_schedule_prompt({"prompt": "Own."}, default="Default.") == "Own."
    assert build_schedule_prompt({"prompt": None}, default="Default.") == "Default."
    assert build_schedule_prompt(SimpleNamespace(prompt="Own.")) == "Own."
    assert build_schedule_prompt(SimpleNamespace()) == "Execute scheduled task."


def test_an_item_needs_an_id_and_nothing_else() -> None:
    assert item_of({"id": 7}, source="command") == WorkItem("7", "7", source="command", external_id="7")
    assert item_of({"id": "a", "labels": "bug"}, source="command").labels == ("bug",)
    with pytest.raises(ValueError, match="needs an id"):
        item_of({"title": "no id"}, source="command")
