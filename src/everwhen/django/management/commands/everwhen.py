"""`manage.py everwhen up | worker | check`: the scheduler of the project in the foreground, and the check of it."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from everwhen.django import get_scheduler
from everwhen.errors import SchedulerError
from everwhen.operations.maintenance import describe_faults, prove
from everwhen.scheduler.scheduler import Scheduler
from everwhen.verify.ledger import LedgerReport
from everwhen.wiring import open_stack

MOST_FAULTS = 20


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    help = "Run the schedules of this project, or check them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="up | worker | check")
        actions.add_parser("up", help="Fire what is due and run it, until Ctrl-C.")
        actions.add_parser("worker", help="Only run what other processes fire, until Ctrl-C.")
        actions.add_parser("check", help="Check what is declared, and every slot on record.")

    def handle(self, *_args: Any, action: str, **_options: Any) -> None:
        scheduler = get_scheduler()
        try:
            if action == "check":
                self._check(scheduler)
            elif action == "worker":
                self._announce(f"scheduler {scheduler.name} runs jobs until Ctrl-C")
                scheduler.run_worker()
            else:
                self._announce(f"scheduler {scheduler.name} fires and runs until Ctrl-C")
                scheduler.run()
        except SchedulerError as error:
            raise CommandError(str(error)) from error

    def _announce(self, sentence: str) -> None:
        self.stdout.write(sentence)
        self.stdout.flush()

    def _check(self, scheduler: Scheduler) -> None:
        stack = open_stack(scheduler.database, timezone=scheduler.timezone, is_existing=True)
        try:
            declared = scheduler.check_on(stack.runtime)
            report = prove(stack.runtime)
            sentences = describe_faults(stack.runtime, report.faults[:MOST_FAULTS])
        finally:
            stack.close()
        self.stdout.write("1 schedule is declared" if declared == 1 else f"{declared} schedules are declared")
        self._tell(report, sentences)

    def _tell(self, report: LedgerReport, sentences: Sequence[str]) -> None:
        seen = f"{report.schedules:,} schedules, {report.slots:,} slots, {report.jobs:,} jobs"
        if report.is_clean:
            proven = f"every slot has exactly one entry, every count agrees{report.unjudged_text}"
            self.stdout.write(f"{seen}: {proven}")
            return
        for fault, sentence in zip(report.faults, sentences, strict=False):
            self.stderr.write(f"{fault.kind}: {sentence}")
        raise CommandError(f"{seen}: {report.fault_count:,} faults; `everwhen db check --json` shows more")
