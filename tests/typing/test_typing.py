"""The types as a user's checker sees them: a sound program passes, each mistake is found on its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import everwhen
from everwhen import Scheduler

ROOT = Path(__file__).parents[2]
SOUND = Path(__file__).with_name("user_program.py")

# Every line with a mark must be found wrong, and no other.
MISTAKES = """
from everwhen import Run, Scheduler, SchedulerEvent, TriggerInfo

scheduler = Scheduler("sqlite://", nam="shop")                      # wrong

@scheduler.every("5m", jiter="30s")                                 # wrong
def one(run: Run) -> None: ...

@scheduler.cron(5)                                                  # wrong
def two(run: Run) -> None: ...

scheduler.every(minutes=5)                                          # wrong
scheduler.cron()                                                    # wrong

@scheduler.every("5m", catch_up="run_twice")                        # wrong
def three(run: Run) -> None: ...

@scheduler.every("5m", args=["Ada"])
def four(name: str, run: Run) -> None: ...
four(5)                                                             # wrong

@scheduler.every("5m", max_retries="3")                             # wrong
def five(run: Run) -> None:
    run.slot                                                        # wrong
    run.slot_at = run.slot_at                                       # wrong

@scheduler.every("5m", kwargs=["Ada"])                              # wrong
async def six(name: str) -> None: ...
scheduler.trigger("one").wait("30s")                                # wrong
scheduler.jobs("one", status="done")                                # wrong
scheduler.update("one", evry="5m")                                  # wrong

def on_trigger(info: str) -> None: ...
Scheduler("sqlite://", on_trigger=on_trigger)                       # wrong
scheduler.stop(timeout="30s")                                       # wrong
scheduler.asgi(allowed_host=["shop.example.com"])                   # wrong
scheduler.create_token("me", role="boss")                           # wrong
scheduler.stop(True)                                                # wrong
scheduler.pause("one", until=5)                                     # wrong
scheduler.add("a", every="5m", run=["true"])                        # wrong
scheduler.add_many([{"every": "5m"}])                               # wrong
scheduler.start([{"name": "a"}])                                    # wrong
status: int = scheduler.get_status()                                # wrong

@scheduler.on("job.faild")                                          # wrong
def seven(event: SchedulerEvent) -> None:
    event.at = event.at                                             # wrong
@scheduler.on(scope="host")                                         # wrong
def eight(event: SchedulerEvent) -> None: ...
@scheduler.on()                                                     # wrong
def nine(event: int) -> None: ...
if scheduler.check_schedule("one").skip_reason == "not_deu": ...    # wrong
"""


def complaints(*paths: Path) -> tuple[set[int], str]:
    """The lines that mypy complains about. The project's own settings, so that what `make check` kept is used."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert done.returncode == bool(found), done.stdout + done.stderr
    return {int(line.split(":")[1]) for line in found}, done.stdout


def test_each_mistake_is_found_on_its_line_and_a_sound_program_has_none(tmp_path: Path) -> None:
    path = tmp_path / "mistakes.py"
    path.write_text(MISTAKES)
    lines = MISTAKES.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found, said = complaints(path)
    assert found == wrong, said
    assert "did you mean" in said.lower() or 'Unexpected keyword argument "jiter"' in said
    assert complaints(SOUND) == (set(), "")


def test_the_sound_program_uses_everything() -> None:
    """Every method of both schedulers, and every name of the package; of the errors those that the contract names."""
    program = SOUND.read_text()
    internal = {
        "check_on",
        "declare_on",
        "functions",
        "lend",
        "listeners",
        "on_trigger",
        "queues",
        "start_on_loop",
    }
    methods = {name for name in dir(Scheduler) if not name.startswith("_")} - internal
    assert {name for name in methods if not re.search(rf"\.{name}\(|\.{name}\b", program)} == set()
    names = {name for name in everwhen.__all__ if not name.endswith("Error") and name != "__version__"}
    assert {name for name in names if not re.search(rf"\b{name}\b", program)} == set()


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/everwhen/py.typed").is_file()
