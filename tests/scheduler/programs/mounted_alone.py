"""The REST API and nothing else; the database is open before the server forks."""

import os

from everwhen import Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")
app = scheduler.asgi()
scheduler.create_token("of the parent")
