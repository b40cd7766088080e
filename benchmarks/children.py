"""Runs contestants as child processes that exchange JSON lines: started once, one request per round."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import IO, Any

from benchmarks.environments import FOLDER, ROOT, EnvironmentUnavailableError, python_of
from benchmarks.model import Benchmark, Contestant
from benchmarks.postgres import SERVER, ServerUnavailableError, a_server
from benchmarks.progress import Progress
from benchmarks.rounds import ContestantFailedError, Measurements, Turn, run_rounds

ANSWER_LIMIT_SECONDS = 1_200  # B27 waits ten minutes for the first pass of retention
SIGN_OFF_LIMIT_SECONDS = 5


class Child:
    """A contestant in a separate process, which runs from `with` to the end of the block."""

    def __init__(
        self,
        contestant: Contestant,
        python: Path,
        *,
        is_quick: bool,
        rules: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.environment = plain_environment() | dict(rules)
        self.folder = contestant.checkout or ROOT
        self.name = contestant.name
        self.label = contestant.name
        quick = ["--quick"] if is_quick else []
        self.command = [str(python), "-m", contestant.worker, *contestant.arguments, *quick]

    def __enter__(self) -> "Child":
        self.stack = ExitStack()
        self.complaints: IO[bytes] = self.stack.enter_context(TemporaryFile())
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The end of its input tells a worker to clean up and exit; one that does not exit is killed.
        with self.stack:
            try:
                self.process.communicate(timeout=SIGN_OFF_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()

    def check(self) -> dict[str, str]:
        answer = self.ask("check")
        self.label = f"{self.name} {answer['version']}".strip()
        digests: dict[str, str] = answer["digests"]
        return digests

    def run(self, part: int, parts: int) -> Turn:
        answer = self.ask("run", part=part, parts=parts)
        timings = {case: (seconds, count) for case, (seconds, count) in answer["timings"].items()}
        return Turn(answer["calibration"], timings, answer["amounts"])

    def ask(self, command: str, **details: int) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        watchdog = Timer(ANSWER_LIMIT_SECONDS, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(json.dumps({"command": command, **details}).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            watchdog.cancel()
        return self.understood(line)

    def understood(self, line: bytes) -> dict[str, Any]:
        if not line:
            raise ContestantFailedError(f"its process ended with {self.process.wait()}{self.last_lines()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContestantFailedError(without_paths(answer["error"]))
        return answer

    def last_lines(self) -> str:
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return f": {without_paths(lines[-1])}" if lines else ""


def measure(benchmark: Benchmark, *, rounds: int, is_quick: bool, progress: Progress) -> Measurements:
    measurements = Measurements(benchmark)
    FOLDER.mkdir(exist_ok=True)
    with ExitStack() as stack:
        try:
            rules = surrounded(benchmark, stack)
        except ServerUnavailableError as failure:
            for contestant in benchmark.contestants:
                measurements.drop(contestant.name, str(failure))
            return measurements
        children = []
        for contestant in benchmark.contestants:
            try:
                child = prepared(contestant, rules, is_quick=is_quick, say=progress.say)
            except EnvironmentUnavailableError as failure:
                measurements.drop(contestant.name, str(failure))
            else:
                children.append(stack.enter_context(child))
        run_rounds(measurements, children, rounds=benchmark.rounds_of(rounds), watcher=progress)
    return measurements


def surrounded(benchmark: Benchmark, stack: ExitStack) -> dict[str, str]:
    """Provide one file system and one server for all contestants; both are removed, however the contestants ended."""
    rules = {"TMPDIR": stack.enter_context(TemporaryDirectory(prefix="scratch-", dir=FOLDER))}
    if benchmark.database == "PostgreSQL":
        rules[SERVER] = stack.enter_context(a_server())
    return rules


def plain_environment() -> dict[str, str]:
    """Return the environment without Python's own variables: PYTHONDONTWRITEBYTECODE, for example, makes every start
    compile anew."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def without_paths(text: str) -> str:
    """Remove paths: results are kept and shown, and must not contain the location of the checkout."""
    return text.replace(str(ROOT), ".")


def prepared(
    contestant: Contestant, rules: Mapping[str, str], *, is_quick: bool, say: Callable[[str], None]
) -> Child:
    if contestant.checkout is not None:
        python = contestant.checkout / ".venv" / "bin" / "python"
    else:
        python = python_of(contestant.environment, say)
    return Child(contestant, python, is_quick=is_quick, rules=rules)
