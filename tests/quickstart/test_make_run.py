"""`make run`, as a newcomer types it: the first firings, and a clean end with Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIRINGS = ("heartbeat", "weather.look", "reviewer.check-issues", "first-plan")  # the last one calls the API


def test_make_run_prints_a_token_fires_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    # -o: the environment is not made anew, whatever the times of its files are.
    command = [
        "make",
        "--no-print-directory",
        "run",
        f"RUN={tmp_path}",
        f"VENV={sys.prefix}",
        "-o",
        f"{sys.prefix}/.installed",
    ]
    # As with another everwhen on the default port, which the tests have taken.
    environ = {key: value for key, value in os.environ.items() if key != "EVERWHEN_API_PORT"}
    tmp_path.chmod(0o755)
    with (
        (tmp_path / "output").open("w") as output,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            umask=0,
        ) as process,
    ):
        try:
            assert process.stderr is not None
            waited_for = set(FIRINGS)
            while waited_for:
                line = process.stderr.readline()
                assert line, f"it ended before {waited_for} had succeeded"
                waited_for -= {name for name in waited_for if f" {name} " in line and "succeeded" in line}
            os.killpg(process.pid, signal.SIGINT)
            assert "stopped" in process.stderr.read().splitlines()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (tmp_path / "output").read_text().startswith("admin token: ew_")
    made = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path, *tmp_path.glob("[te]*"))}
    assert made == {tmp_path.name: 0o700, "token": 0o600, "everwhen.db": 0o600, "everwhen.db.lock": 0o600}
