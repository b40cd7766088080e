"""The examples whose README begins with `everwhen up`, each run as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.examples.running import copied, run, up
from tests.targets.running import until


def test_plugins_in_bash_and_python_run_and_keep_their_state(tmp_path: Path) -> None:
    folder = copied("plugins", tmp_path)
    with up(folder) as service:
        service.await_line("succeeded", 2)
        run("everwhen", "schedules", "trigger", "new-lines.changelog", folder=folder)
        service.await_line("succeeded")
    jobs = json.loads(run("everwhen", "jobs", "list", "--json", folder=folder))
    results = {(job["schedule_id"], job["origin"]): job["result"] for job in jobs}
    assert re.fullmatch(r"/ is \d+ % full", results["disk-space.root", "schedule"])
    assert results["new-lines.changelog", "schedule"] != "0 new lines"
    assert results["new-lines.changelog", "manual"] == "0 new lines"  # it knows what it has read


def test_a_fleet_of_agents_works_off_its_inbox_until_the_budget_is_spent(tmp_path: Path) -> None:
    folder = copied("agent-fleet", tmp_path)
    (folder / "drafts").mkdir()  # as its README says: the inbox of the reviewer
    with up(folder, PACE="1s"):
        # Two runs of the writer fit into a day; each draft is reviewed.
        until(lambda: len(list((folder / "drafts").glob("done/*"))) == 2, 60)
        until(lambda: "skipped: the budget" in run("everwhen", "why", "writer.write", folder=folder), 60)
        shown = run("everwhen", "budgets", "list", folder=folder)
        assert run("everwhen", "jobs", "list", "--status", "failed", "--json", folder=folder).strip() == "[]"
    assert [path.name for path in (folder / "inbox").glob("*.md")] == ["3-catch-up.md"]
    assert "0.8 USD" in shown


def test_quiet_hours_are_simulated_and_what_an_agent_proposes_waits_for_a_person(tmp_path: Path) -> None:
    folder = copied("quiet-hours-and-approval", tmp_path)
    command = re.findall(r"^everwhen (simulate .*)$", (folder / "README.md").read_text(), re.MULTILINE)[0]
    simulated = run("everwhen", *command.split(), folder=folder)
    assert "skipped: 32 quiet_hours" in simulated
    with up(folder) as service:
        walked = run("sh", "walk.sh", folder=folder, SERVICE=service.url)
    assert "tea" in walked.partition("looks at what waits:")[2].partition("The agent cannot")[0]
    assert "error" in walked.partition("cannot approve it itself:")[2].partition("The person approves")[0]
    assert "approved" in walked.partition("approves revision 1:")[2]


def test_a_generated_client_schedules_and_runs_a_workflow(tmp_path: Path) -> None:
    folder = copied("generated-client", tmp_path)
    (folder / "config.yaml").write_text(
        "post_hooks: []\n"
    )  # the generator would start ruff on what it writes
    readme = (folder / "README.md").read_text()
    (generate,) = re.findall(r"^(openapi-python-client generate .*)$", readme, re.MULTILINE)
    with up(folder, "--token-file", "token") as service:
        command = generate.replace("http://127.0.0.1:8750", service.url).split()
        run(*command, "--config", "config.yaml", folder=folder)
        token = (folder / "token").read_text().strip()
        printed = run("python", "program.py", folder=folder, EVERWHEN_URL=service.url, EVERWHEN_TOKEN=token)
    first, second, third = printed.splitlines()
    assert first.startswith("daily-report ") and "09:00" in first
    assert second == "succeeded: report of daily-report"
    assert "will fire" in third
