"""The `workflows` section: what a workflow_id starts.

Schedules of workflows come from the `schedules` section or over REST.
"""

from __future__ import annotations

from everwhen.config.node import Node
from everwhen.config.sections.collector import ScheduleCollector
from everwhen.config.sections.groups import join
from everwhen.config.target_fields import target_of
from everwhen.model.target_kinds import GROUP_KINDS
from everwhen.model.workflow import Workflow

_NOT_A_WORKFLOW = "is started by the workflow; a workflow itself runs over command, http or python"


def read_workflows(node: Node, collector: ScheduleCollector) -> None:
    for workflow_id, child in node.entries():
        fields = join(child, workflow_id, "workflow", collector)
        run = fields.get("run")
        if run is None:
            continue
        for kind in GROUP_KINDS:
            if kind in run:
                child["run"].complain(_NOT_A_WORKFLOW, kind)
                return
        collector.workflows[workflow_id] = Workflow(
            workflow_id, target_of(run), fields.get("name") or "", tuple(fields.get("triggers") or ())
        )
