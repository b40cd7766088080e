"""Messages to a program: the generic body as JSON on its standard input.

Its environment is that of a command's run: of the variables of this process only those that hold no secret, and those
that its rule lists.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from everwhen.clock import SystemClock
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.one_line import one_line
from everwhen.model.variables import DELIVERY_ID
from everwhen.targets.process import safe_base
from everwhen.targets.secrets import Secrets, UnresolvedError

TIMEOUT = 10.0
LOOK_EVERY = 0.05  # seconds between two looks at a program that writes nothing
MOST_HEARD = 4_096  # bytes of its output
FINAL = 78  # as for plugins: a repetition is in vain


class CommandChannel:
    """Runs `{"argv": […], "env": {…}}`, never by a shell; exit status 0 is a delivery, 78 a final refusal."""

    def __init__(self, *, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._clock = SystemClock()

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        secrets = Secrets()
        try:
            fields = secrets.resolve(dict(spec))
        except UnresolvedError as error:
            return Sent(False, str(error))
        argv = [str(argument) for argument in fields["argv"]]
        listed = {name: str(value) for name, value in (fields.get("env") or {}).items()}
        environment = {**safe_base(), **listed, DELIVERY_ID: delivery.delivery_id}
        sent = self._run(argv, environment, delivery)
        return sent._replace(answer=secrets.mask(sent.answer) or "")

    def _run(self, argv: Sequence[str], environment: Mapping[str, str], delivery: AlertDelivery) -> Sent:
        # A file, and no pipe: a program that does not read its input cannot make this thread wait.
        with tempfile.TemporaryFile() as body:
            body.write(delivery.body.encode())
            body.seek(0)
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=body,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return Sent(False, f"{one_line(argv[0], 200)} cannot be started: {error}")
        said = self._heard(process)
        if said is None:
            return Sent(False, f"{one_line(argv[0], 200)} took longer than {self._timeout:g}s")
        text = one_line(said.decode(errors="replace"))
        answer = f"exit {process.returncode}: {text}" if text else f"exit {process.returncode}"
        return Sent(process.returncode == 0, answer, is_final=process.returncode == FINAL)

    def _heard(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """Return the beginning of what a program wrote until it ended; None, and it is killed, when it takes too long.

        The end of the program counts, not that of its output: what it leaves running may keep that open.
        """
        assert process.stdout is not None
        deadline, said = self._clock.monotonic() + self._timeout, b""
        with process.stdout as output, selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while (left := deadline - self._clock.monotonic()) > 0:
                is_over = process.poll() is not None
                if not selector.select(0 if is_over else min(left, LOOK_EVERY)):
                    if is_over:
                        return said
                    continue
                piece = os.read(output.fileno(), MOST_HEARD)
                said = (said + piece)[:MOST_HEARD]
                if not piece and _ends(process, left):
                    return said
                if is_over and len(said) == MOST_HEARD:
                    return said
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _ends(process: subprocess.Popen[bytes], within: float) -> bool:
    """Wait for the end of a program that writes nothing any more; return whether it ended in time."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(within)
    return process.returncode is not None
