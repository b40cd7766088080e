"""The workflows door: what a workflow_id starts. Schedules of workflows come over the general door, or over REST."""

from __future__ import annotations

from everwhen.config.doors.admission import Admission
from everwhen.config.doors.groups import join
from everwhen.config.node import Node
from everwhen.config.run_words import target_of
from everwhen.ports.workflows import Workflow

_NOT_A_WORKFLOW = "is started by the workflow; a workflow itself runs over command, http or python"


def read_workflows(node: Node, admission: Admission) -> None:
    for workflow_id, child in node.entries():
        words = join(child, workflow_id, "workflow", admission)
        run = words.get("run")
        if run is None:
            continue
        for kind in ("workflow", "agent", "plugin"):
            if kind in run:
                child["run"].complain(_NOT_A_WORKFLOW, kind)
                return
        admission.workflows[workflow_id] = Workflow(
            workflow_id, target_of(run), words.get("name") or "", tuple(words.get("triggers") or ())
        )
