"""Schedules a workflow, runs it once now, and prints what came of it, with the client that the README generates."""

import os
import time

from everwhen_client import AuthenticatedClient
from everwhen_client.api.history import explain_schedule
from everwhen_client.api.jobs import get_job
from everwhen_client.api.schedules import delete_schedule, put_schedule, trigger_schedule
from everwhen_client.models import JobStatus, ScheduleBody

OVER = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.TIMED_OUT, JobStatus.CANCELLED, JobStatus.LOST}


def main() -> None:
    url, token = os.environ["EVERWHEN_URL"], os.environ["EVERWHEN_TOKEN"]
    with AuthenticatedClient(base_url=url, token=token) as client:
        # By a key of our own: the second start of this program changes the schedule and makes no second one.
        body = ScheduleBody(name="daily-report", cron="0 9 * * 1-5", timezone="Europe/Paris", workflow_id=1)
        schedule = put_schedule.sync("daily-report", client=client, body=body)
        print(f"{schedule.name} {schedule.description_text}")
        job = trigger_schedule.sync(schedule.id, client=client).job
        while job.status not in OVER:
            time.sleep(0.1)
            job = get_job.sync(job.id, client=client)
        print(f"{job.status}: {job.result}")
        print(
            explain_schedule.sync(schedule.id, client=client).sentence
        )  # of its slots; the run by hand is none
        delete_schedule.sync(schedule.id, client=client)


if __name__ == "__main__":
    main()
