"""Completion, tried in real shells: in bash and zsh a person presses Tab, and fish tells what it would offer."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen import Scheduler
from tests.api.serving import serving

BIN = Path(sys.executable).parent
COMMAND = str(BIN / "everwhen")
PATIENCE = 60.0
CLEAR_LINE = "\x15"
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(everwhen completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D -u; eval "$(everwhen completion zsh)"'),
}


def refuse_missing(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"NOT COMPLETED IN {shell}: apt-get install {shell}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database in which schedules have ids, and one has a key with a colon."""
    found = tmp_path_factory.mktemp("completion")
    (found / "everwhen.yaml").write_text("service: {database: 'sqlite:///everwhen.db'}\n")
    with Scheduler(f"sqlite:///{found}/everwhen.db", name="complete") as scheduler:
        for name in ("heartbeat", "nightly-backup", "nightly-report"):
            scheduler.add(name, every="1h", first_run="after_interval", run={"message": {"text": "x"}})
    line = "schedules create --id team:sweep --every 1h --name Sweep --run".split()
    subprocess.run([COMMAND, *line, '{"message": {"text": "x"}}'], cwd=found, check=True, capture_output=True)
    return found


class Keyboard:
    """A shell on a terminal, and somebody who types."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, text: str) -> str:
        """What the terminal shows up to this text."""
        while text not in self._seen:
            assert select.select([self._terminal], [], [], PATIENCE)[0], (
                f"{text!r} did not come: {self._seen!r}"
            )
            self._seen += os.read(self._terminal, 65_536).decode(errors="replace")
        found, _, self._seen = self._seen.partition(text)
        return found


@contextmanager
def shell_in(folder: Path, shell: str) -> Iterator[Keyboard]:
    argv, setup = SHELLS[shell]
    terminal, side = pty.openpty()
    path = f"{BIN}:{os.environ['PATH']}"
    environ = {
        "PATH": path,
        "TERM": "dumb",
        "HOME": str(folder),
        "PS1": "",
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
    }
    process = subprocess.Popen(
        argv, cwd=folder, env=environ, stdin=side, stdout=side, stderr=side, start_new_session=True
    )
    os.close(side)
    try:
        keyboard = Keyboard(terminal)
        keyboard.type(f"{setup}; echo is-$((40 + 2))-ready\r")
        keyboard.read_until("is-42-ready")
        yield keyboard
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_the_id_of_a_schedule(folder: Path, shell: str) -> None:
    refuse_missing(shell)
    with shell_in(folder, shell) as keyboard:
        # What Tab adds to the line, also where two ids begin alike, and after a colon.
        for typed, added in (
            ("everwhen why hea", "rtbeat"),
            ("everwhen schedules pause nigh", "tly-"),
            ("everwhen schedules pause nightly-b", "ackup"),
            ("everwhen schedules trigger team:sw", "eep"),
            ("everwhen sim", "ulate"),
        ):
            keyboard.type(f"{CLEAR_LINE}{typed}\t")
            keyboard.read_until(added)


def test_bash_completes_after_a_word_with_a_colon(folder: Path) -> None:
    with shell_in(folder, "bash") as keyboard:
        keyboard.type(f"everwhen why --database sqlite:///{folder}/everwhen.db hea\t")
        keyboard.read_until("heartbeat")


def test_fish_offers_schedules_and_commands_with_what_they_do(folder: Path) -> None:
    refuse_missing("fish")

    def offered(line: str) -> list[str]:
        script = f"everwhen completion fish | source; complete -C '{line}'"
        environ = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert offered("everwhen why hea") == ["heartbeat"]
    assert offered("everwhen logs team") == ["team:sweep\tSweep"]
    assert sorted(offered("everwhen schedules pause nigh")) == ["nightly-backup", "nightly-report"]
    assert offered("everwhen schedules back") == ["backfill\tRun past slots of a schedule that have no job."]


def answered(folder: Path, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "COMP_WORDS": line, "_EVERWHEN_COMPLETE": "bash_complete", **environ}
    return subprocess.run([COMMAND], cwd=folder, env=given, capture_output=True, text=True, check=False)


def test_without_a_database_nothing_is_offered_and_nothing_is_printed(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("this is not a database")
    for line in (
        "everwhen why hea",
        "everwhen why --database sqlite:///broken.db hea",
        "everwhen why --database nonsense hea",
        "everwhen why --url http://127.0.0.1:9 hea",
        "everwhen nonsense hea",
    ):
        done = answered(tmp_path, line)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", ""), line
    assert not (tmp_path / "everwhen.db").exists()


def test_a_schedule_that_the_line_names_already_is_not_offered_again(folder: Path) -> None:
    assert answered(folder, "everwhen schedules pause nightly-backup nigh").stdout == "plain,nightly-report\n"


def test_the_names_come_from_the_service_that_the_environment_names(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        client = service.client("admin", owner="ada")
        client.call("PUT", "/schedules/key/hers/", {"every": "1h", "run": {"message": {"text": "x"}}})
        for who, offered in ((client, "plain,hers\n"), (service.client("viewer", owner="bob"), "")):
            environ = {"EVERWHEN_URL": service.url, "EVERWHEN_TOKEN": who.secret or ""}
            assert answered(tmp_path, "everwhen why h", **environ).stdout.strip() == offered.strip()


def test_completing_a_command_imports_none_of_them(folder: Path) -> None:
    code = (
        "import sys; from everwhen.cli.main import main\n"
        "try: main()\n"
        "finally: print('LOADED', *(n for n in sys.modules if n.endswith('_command')), file=sys.stderr)"
    )
    given = {**os.environ, "COMP_WORDS": "everwhen ", "_EVERWHEN_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False
    )
    assert "plain,schedules" in done.stdout and done.stderr == "LOADED\n"
