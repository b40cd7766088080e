"""What the application schedules; found by `everwhen.django`."""

from django.db import connection

from everwhen import Run
from everwhen.django import scheduler


@scheduler.every("1s", id="tick")
def tick(run: Run) -> str:
    return run.schedule_id


@scheduler.cron("0 9 * * 1-5", id="report")
async def report() -> str:
    return "reported"


@scheduler.cron("0 0 1 1 *", id="confirm")
def confirm() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 6 * 7")
        (found,) = cursor.fetchone()
    return f"confirmed {found}"
