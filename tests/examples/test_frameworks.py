"""The applications of the examples, each under the server that its README names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.examples.running import copied, run
from tests.scheduler.mounted_client import MountedClient
from tests.scheduler.test_frameworks import serving
from tests.scheduler.test_mounted_api import QUIET
from tests.scheduler.waiting import until


def test_the_fastapi_application_refreshes_its_prices(tmp_path: Path) -> None:
    folder = copied("fastapi", tmp_path)
    client = MountedClient(tmp_path / "socket")
    with serving("", "uvicorn", "--uds", str(client.path), *QUIET, "app:app", folder=folder):
        assert client.call("POST", "/prices/refresh").fields["result"] == "1 prices"
        assert client.call("GET", "/tools/everwhen/healthz").status == 200


def test_the_flask_application_cleans_up_in_its_context(tmp_path: Path) -> None:
    folder = copied("flask", tmp_path)
    client = MountedClient(tmp_path / "socket")
    server = ["gunicorn", "--bind", f"unix:{client.path}", *QUIET, "app:create_app()"]
    with serving("", *server, folder=folder):
        assert client.call("POST", "/cleanup").fields["result"] == "removed the old carts of Ada's teas"


def test_the_django_project_thanks_for_an_order_that_was_committed(tmp_path: Path) -> None:
    folder = copied("django", tmp_path)
    run("python", "manage.py", "migrate", folder=folder)
    assert "No changes detected" in run("python", "manage.py", "makemigrations", "--check", folder=folder)
    buy = "from django.test import RequestFactory as f; from orders.views import buy; buy(f().get('/buy/'))"
    with serving("", "manage", "everwhen", "up", folder=folder):
        run("python", "manage.py", "shell", "-c", buy, folder=folder)
        with closing(sqlite3.connect(folder / "db.sqlite3")) as shop:
            until(lambda: shop.execute("SELECT is_thanked FROM orders_order").fetchall() == [(1,)])
