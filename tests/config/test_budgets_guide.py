"""The snippets of the guide about budgets that are not Python: the file is valid, and the script reports."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from everwhen.config.read import Host, read_configuration
from everwhen.decide.budgets import max_cost
from everwhen.model.cost import Cost
from everwhen.targets.command import CommandTarget
from tests.targets.running import a_run, perform

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "budgets.md").read_text()


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_file_of_the_guide_is_valid_and_hands_over_what_a_run_may_cost(tmp_path: Path) -> None:
    path = tmp_path / "everwhen.yaml"
    path.write_text(snippets("yaml")[0])
    configuration = read_configuration(path, Host({}, lambda: "UTC", 0))
    (declared,) = configuration.declared.schedules
    (budget,) = declared.definition.budgets
    assert (budget.key, budget.per_hour, budget.cost_per_day, budget.unit) == (
        "budget:reviewer",
        20,
        5_000_000,
        "USD",
    )
    assert max_cost(declared.definition) == Cost(500_000, "USD")
    assert '"report": "claude"' in declared.target.spec


def test_the_script_of_the_guide_reports(tmp_path: Path) -> None:
    agent = tmp_path / "my-agent"
    agent.write_text('#!/bin/sh\necho "$@"\n')
    agent.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(snippets("sh")[0])
    target = CommandTarget()
    spec = {"argv": ["sh", str(script)], "cwd": str(tmp_path), "env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}}
    outcome = perform(target, spec, replace(a_run(), max_cost=Cost(500_000, "USD")))
    assert (outcome.result, outcome.cost) == ("3 issues", Cost(420_000, "USD"))
    assert (tmp_path / "answer.txt").read_text() == "--limit 0.5\n"
