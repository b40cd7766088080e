#!/usr/bin/env python3
"""A client in the manner of Pipelit's: the eight calls that it knows, and nothing but the standard library.

    EVERWHEN_URL=http://127.0.0.1:8750 EVERWHEN_TOKEN=ew_… python client.py WORKFLOW_ID

It schedules a daily report of a workflow, looks at it, changes, pauses and resumes it, and cleans up after itself.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any


class Schedules:
    """Scheduled jobs of one service."""

    def __init__(self, url: str, token: str) -> None:
        self._base = f"{url.rstrip('/')}/api/v1/schedules/"
        self._token = token

    def list(self, **filters: str) -> list[dict[str, Any]]:
        query = "&".join(f"{key}={value}" for key, value in filters.items())
        found: list[dict[str, Any]] = self._call("GET", f"?{query}" if query else "")["items"]
        return found

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", "", body)

    def get(self, job_id: str) -> dict[str, Any]:
        return self._call("GET", f"{job_id}/")

    def update(self, job_id: str, **changes: Any) -> dict[str, Any]:
        return self._call("PATCH", f"{job_id}/", changes)

    def pause(self, job_id: str) -> dict[str, Any]:
        return self._call("POST", f"{job_id}/pause/")

    def resume(self, job_id: str) -> dict[str, Any]:
        return self._call("POST", f"{job_id}/resume/")

    def delete(self, job_id: str) -> None:
        self._call("DELETE", f"{job_id}/")

    def batch_delete(self, job_ids: list[str]) -> None:
        self._call("POST", "batch-delete/", {"schedule_ids": job_ids})

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._base + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{error.code}: {json.load(error)['detail']}") from None
        found: dict[str, Any] = json.loads(raw) if raw else {}
        return found


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: client.py WORKFLOW_ID")
    workflow_id = int(sys.argv[1]) if sys.argv[1].isdecimal() else sys.argv[1]
    jobs = Schedules(os.environ.get("EVERWHEN_URL", "http://127.0.0.1:8750"), os.environ["EVERWHEN_TOKEN"])
    body = {
        "name": "Daily report",
        "workflow_id": workflow_id,
        "interval_seconds": 86_400,
        "total_repeats": 0,
        "max_retries": 3,
        "timeout_seconds": 600,
        "trigger_payload": {"report_type": "daily"},
    }
    first, second = (
        jobs.create(body),
        jobs.create({**body, "name": "Weekly report", "interval_seconds": 604_800}),
    )
    print(f"created {first['name']} ({first['status']}), next run at {first['next_run_at']}")
    print(
        f"{len(jobs.list(status='active', workflow_id=str(workflow_id)))} active jobs of workflow {workflow_id}"
    )
    print(
        f"every {jobs.update(first['id'], interval_seconds=43_200)['interval_seconds']} seconds from now on"
    )
    print(f"paused: {jobs.pause(first['id'])['status']}; resumed: {jobs.resume(first['id'])['status']}")
    print(f"{jobs.get(first['id'])['run_count']} runs so far")
    jobs.delete(first["id"])
    jobs.batch_delete([second["id"], "unknown ids are ignored"])
    print("deleted")


if __name__ == "__main__":
    main()
