"""Quiet hours submitted over REST: checked like those of the file; `views.quiet_hours` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.config.node import Node
from everwhen.config.plain import plain_document
from everwhen.config.problems import MOST_SUBMITTED, Report
from everwhen.config.schema import QUIET_HOURS
from everwhen.config.sections.collector import ScheduleCollector
from everwhen.config.sections.quiet_hours import read_quiet_hours
from everwhen.config.submission import SubmissionRules
from everwhen.errors import SubmissionError
from everwhen.model.kinds import MapOf
from everwhen.model.scalars import spelled
from everwhen.model.schedule import QuietHoursPolicy

_POLICIES = MapOf(QUIET_HOURS)


def read_policy(fields: Any, policy_id: str, rules: SubmissionRules) -> QuietHoursPolicy:
    """Return the policy of submitted fields; raise SubmissionError with every problem and its path."""
    if not isinstance(fields, Mapping):
        raise SubmissionError([("", f"quiet hours are an object, not {spelled(fields)}")])
    try:
        return _judged(fields, policy_id, rules)
    except SubmissionError as error:
        found = ((_below(path, policy_id), message) for path, message in error.problems)
        raise SubmissionError(found) from None


def _judged(fields: Mapping[str, Any], policy_id: str, rules: SubmissionRules) -> QuietHoursPolicy:
    report = Report(most=MOST_SUBMITTED)
    document = plain_document({policy_id: fields}, report)
    node = Node(document, (), document.root, report)
    _POLICIES.check(node)
    collector = ScheduleCollector(report, rules.now, rules.timezone, rules.local_zone, "auto")
    read_quiet_hours(node, collector)
    if report.errors:
        raise SubmissionError((problem.path, problem.message) for problem in report.errors)
    return collector.policies[policy_id]


def _below(path: str, policy_id: str) -> str:
    return path.removeprefix(policy_id).removeprefix(".")
