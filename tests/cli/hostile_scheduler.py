"""A scheduler object of APScheduler 3 whose jobs are named by a stranger, for `everwhen import apscheduler`."""

from apscheduler.schedulers.background import BackgroundScheduler

from tests.cli.test_terminal import HOSTILE

scheduler = BackgroundScheduler()
scheduler.add_job(print, "interval", hours=1, id=HOSTILE, name=HOSTILE, args=[HOSTILE])
scheduler.add_job(lambda: None, "interval", hours=1, id=f"lambda {HOSTILE}")
