"""The lifecycle of a server on loopback: started, stopped, killed, started again on the same port, removed.

This module owns the order of these steps. Subclasses own what is specific to one kind of server.
"""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.servers.account import Account
from tests.servers.ending import at_the_end
from tests.servers.errors import ServerError
from tests.servers.ports import HeldPort
from tests.servers.process import ServerFolder, ServerProcess

_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.005
_PORTS_TO_TRY = 5


class LocalServer(ABC):
    """A server whose data survive `stop` and `kill`; `close` removes the data with everything else."""

    orderly_signal: ClassVar[signal.Signals]
    quickest_signal: ClassVar[signal.Signals]

    def __init__(self, account: Account, environment: Mapping[str, str] | None = None) -> None:
        self._account = account
        self._environment = environment  # in addition to ours
        self._folder: ServerFolder | None = None
        self._port: HeldPort | None = None
        self._process: ServerProcess | None = None
        self._has_served = False

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise ServerError(f"{self._kind} was never started, or is closed: call start() first")
        return self._folder.path

    @property
    def port(self) -> int:
        if self._port is None:
            raise ServerError(f"{self._kind} was never started, or is closed: call start() first")
        return self._port.number

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that clients connect to; the same after a restart."""

    @property
    def pid(self) -> int | None:
        """The process id of the running server."""
        return self._process.pid if self._process and not self._process.has_ended else None

    def start(self) -> None:
        """Start the server and return when it accepts connections; the first start also creates its data."""
        if self.pid is not None:
            raise ServerError(f"{self._kind} is already running: call restart(), or stop() first")
        self._end(self.quickest_signal)
        if self._folder is None:
            self._set_up()
        for _ in range(_PORTS_TO_TRY):
            process = self._launch()
            if self._becomes_ready(process):
                self._has_served = True
                return
            if self._has_served or "Address already in use" not in process.output:
                break
            self._take_another_port()
        raise ServerError(f"{self._kind} did not start; its log ends:\n{process.output[-2000:]}")

    def stop(self) -> None:
        """Stop the server in an orderly way and keep the data."""
        self._end(self.orderly_signal)

    def kill(self) -> None:
        """Simulate a crash: send SIGKILL to the server, and wait until its child processes have ended as well."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start the server on the same data and the same port, whether it is stopped, killed or running."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server in the quickest way and remove data, folder and port. A second call is harmless."""
        try:
            self._end(self.quickest_signal)
        finally:
            folder, self._folder = self._folder, None
            port, self._port = self._port, None
            self._has_served = False
            if port:
                port.release()
            if folder:
                folder.remove()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _find_programs(self) -> None:
        """Find the programs. This is called before anything is created, so a missing program leaves nothing to
        remove."""

    @abstractmethod
    def _make_data(self) -> None:
        """Create the data. This is called once, when `folder` exists and is empty."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]: ...

    @abstractmethod
    def _is_ready(self, process: ServerProcess) -> bool: ...

    @property
    def _kind(self) -> str:
        return type(self).__name__

    def _set_up(self) -> None:
        self._find_programs()
        at_the_end(self.close)
        self._folder = ServerFolder(self._account, self.quickest_signal)
        self._port = HeldPort()
        try:
            self._make_data()
        except BaseException:
            self.close()
            raise

    def _launch(self) -> ServerProcess:
        process = ServerProcess(
            self._command(),
            folder=self.folder,
            log=self.folder / "log",
            account=self._account,
            environment=self._environment,
        )
        self._process = process
        self._note_running(process.pid)
        return process

    def _becomes_ready(self, process: ServerProcess) -> bool:
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while not self._is_ready(process):
            if process.has_ended or time.monotonic() > give_up_at:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _take_another_port(self) -> None:
        self._end(self.quickest_signal)
        assert self._port is not None
        self._port.release()
        self._port = HeldPort()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.end(how, patience_seconds=_PATIENCE_SECONDS)
        finally:
            self._note_running(None)

    def _note_running(self, pid: int | None) -> None:
        assert self._folder is not None
        self._folder.note_running(pid)
