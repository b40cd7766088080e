"""A worker of RQ in the process of the test."""

from __future__ import annotations

from rq import SimpleWorker


class WorkerAtHand(SimpleWorker):
    """Ctrl-C stays with the test runner: RQ would take it over, for every test that comes after."""

    def _install_signal_handlers(self) -> None:
        return None
