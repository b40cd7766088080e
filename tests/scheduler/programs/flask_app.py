"""Flask: the scheduler starts where the application is made, in each process of the server."""

import atexit
import os

from flask import Flask

from everwhen import Run, Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")


@scheduler.every("1s", id="tick", catch_up="run_all", if_running="queue")
def tick(run: Run) -> str:
    return f"process {os.getpid()}"


def create_app() -> Flask:
    app = Flask(__name__)
    app.add_url_rule("/", "status", scheduler.get_status)
    scheduler.start()
    atexit.register(scheduler.stop)
    return app
