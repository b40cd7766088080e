"""The files that docs/guide/frameworks.md shows, written down and run as their readers run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen import Scheduler
from tests.scheduler.mounted_client import MountedClient, run_job
from tests.scheduler.test_frameworks import ROOT, serving
from tests.scheduler.test_mounted_api import QUIET
from tests.scheduler.waiting import PATIENCE, until

GUIDE = (ROOT / "docs/guide/frameworks.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE, re.DOTALL))
TOKEN = re.findall(r"\$ everwhen (token create .*)", GUIDE)
# What `django-admin startproject` and `startapp` write, and a model.
DJANGO = {
    "manage.py": """
import os, sys
from django.core.management import execute_from_command_line
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/settings.py": """
from pathlib import Path
BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "of a test"
DEBUG = True
ALLOWED_HOSTS = []
INSTALLED_APPS = ["orders"]
ROOT_URLCONF = "shop.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True
""",
    "shop/urls.py": """
from django.urls import path
from orders.views import buy
urlpatterns = [path("buy/", buy)]
""",
    "orders/__init__.py": "",
    "orders/models.py": """
from django.db import models
class Order(models.Model): ...
""",
}


def write(folder: Path, names: list[str], given: dict[str, str]) -> None:
    """Write files of the guide, each after what was given of it before."""
    for name in {*given, *names}:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(given.get(name, "") + FILES.get(name, ""))


def python(folder: Path, *arguments: str) -> str:
    """Run a module or a program in the folder; return what it printed."""
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def uvicorn(folder: Path, application: str, database: str) -> Iterator[MountedClient]:
    """A server of the application, and a client with a token made by the command that the guide shows."""
    (command,) = TOKEN
    arguments = command.replace("sqlite:///shop.db", database).split()
    client = MountedClient(
        folder / "socket", python(folder, "-m", "everwhen", *arguments).strip(), host="localhost"
    )
    server = ["uvicorn", "--uds", str(client.path), *QUIET, application]
    with serving("", *server, folder=folder):
        yield client


def test_the_guide_has_no_file_that_is_not_tested() -> None:
    assert set(FILES) == {
        "fastapi_app.py",
        "starlette_app.py",
        "flask_app.py",
        "shop/settings.py",
        "shop/asgi.py",
        "orders/tasks.py",
        "orders/views.py",
    }


@pytest.mark.parametrize(("name", "schedule_id"), [("fastapi_app", "report"), ("starlette_app", "poll")])
def test_asgi_applications_of_the_guide_run(tmp_path: Path, name: str, schedule_id: str) -> None:
    write(tmp_path, [f"{name}.py"], {})
    with uvicorn(tmp_path, f"{name}:app", "sqlite:///shop.db") as client:
        assert run_job(client, schedule_id)["status"] == "succeeded"
        if name == "fastapi_app":
            job_id = client.call("POST", "/reports").fields
            until(lambda: client.api("GET", f"/jobs/{job_id}/").fields["result"] == "sent")


def test_the_django_project_of_the_guide_runs(tmp_path: Path) -> None:
    write(tmp_path, ["shop/settings.py", "shop/asgi.py", "orders/tasks.py", "orders/views.py"], DJANGO)
    python(tmp_path, "manage.py", "makemigrations", "orders")
    python(tmp_path, "manage.py", "migrate")
    commands = re.findall(r"manage.py everwhen (\w+) ", GUIDE)
    assert commands == ["up", "worker", "check"]
    with (
        uvicorn(tmp_path, "shop.asgi:application", "sqlite:///everwhen.db") as client,
        serving("", "manage", "everwhen", "up", folder=tmp_path),
    ):
        until(lambda: client.api("GET", "/schedules/remind/").status == 200)
        assert client.call("GET", "/buy/").raw == b"1"
        assert run_job(client, "thank-1")["result"] == "thank you for order 1"
        assert run_job(client, "remind")["result"] == "1 orders"
    assert "1 schedule is declared" in python(tmp_path, "manage.py", "everwhen", "check")


def test_the_flask_application_of_the_guide_runs(tmp_path: Path) -> None:
    write(tmp_path, ["flask_app.py"], {})
    client = MountedClient(tmp_path / "socket")
    server = ["gunicorn", "--bind", f"unix:{client.path}", *QUIET, "flask_app:create_app()"]
    scheduler = Scheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    try:
        with serving("", *server, folder=tmp_path):
            job_id = client.call("POST", "/poll").fields["job"]
            until(lambda: scheduler.get_job(job_id).result == "polled by shop")
    finally:
        scheduler.close()
