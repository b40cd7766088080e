"""`everwhen.django` in a project, with its server and its processes as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured

from everwhen import Scheduler
from everwhen.django.configuration import database_url, read_options
from tests.scheduler.mounted_client import (
    MountedClient,
    hear_of_a_firing,
    live_through,
    read_documentation,
    run_job,
    use_a_session,
)
from tests.scheduler.test_frameworks import PROGRAMS, ROOT, serving
from tests.scheduler.test_mounted_api import QUIET, token_for
from tests.scheduler.waiting import PATIENCE, until
from tests.servers.everwhen_database import PostgresDatabase

PROJECT = f"{PROGRAMS}.django_project"


def managing(folder: Path, action: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """`manage.py everwhen up` or `worker`, until the block ends."""
    return serving("", f"{PROJECT}.manage", "everwhen", action, SHOP_FOLDER=str(folder))


def manage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "SHOP_FOLDER": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"{PROJECT}.manage", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_tasks_are_found_fired_and_triggered_from_views_and_over_the_mounted_api(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/everwhen.db"  # beside the file of Django
    client = MountedClient(tmp_path / "shop", token_for(url))
    server = ["uvicorn", "--uds", str(client.path), *QUIET, f"{PROJECT}.asgi:application"]
    with managing(tmp_path, "up") as node, serving("", *server, SHOP_FOLDER=str(tmp_path)):
        until(lambda: client.api("GET", "/schedules/tick/").status == 200)
        until(lambda: client.api("GET", "/schedules/tick/").fields["run_count"] >= 2)
        assert client.api("GET", "/schedules/report/").fields["timezone"] == "Europe/Berlin"
        live_through(client)
        assert run_job(client, "report")["result"] == "reported"
        read_documentation(client)
        hear_of_a_firing(client, "tick")
        use_a_session(client)
        assert client.call("GET", "/order/?fails=").raw == b"stopped"  # the web process starts nothing
        assert client.api("GET", "/jobs/?schedule_id=confirm").fields["total"] == 0
        assert client.call("GET", "/order/").raw == b"stopped"
        found = client.api("GET", "/jobs/?schedule_id=confirm").fields["items"]
        until(lambda: client.api("GET", f"/jobs/{found[0]['id']}/").fields["result"] == "confirmed 42")
        stranger = MountedClient(client.path, client.secret, host="shop.example.org")
        assert stranger.api("GET", "/schedules/").status == 421
    assert node.returncode == 0


ATTACK = """
import json, sys
from dataclasses import replace
import django; django.setup()
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from everwhen.django import get_scheduler, mount_api
from tests.scheduler.test_mounted_safety import HOST, Caller, signed_in

site, found = get_asgi_application(), {}
call = Caller(mount_api(site, "/tools/everwhen/"))
secret = get_scheduler().create_token("admin", "admin")
bearer = {"authorization": f"Bearer {secret}"}
found["me"] = call("GET", "/api/v1/me/", **bearer).status
for host in ("evil.example", f"evil@{HOST}", "example.com.evil.example"):
    found[host] = replace(call, hosts=(host,))("GET", "/api/v1/me/", **bearer).status
found["two hosts"] = replace(call, hosts=(HOST, HOST))("GET", "/api/v1/me/", **bearer).status
sent, proof = signed_in(call, secret)
found["cookie"] = next(iter(sent.values())).partition("=")[0]
found["cookie alone"] = call("GET", "/api/v1/me/", **sent).status
# Django's own proof is another one.
found["csrftoken"] = call("GET", "/api/v1/me/", cookie=f"{sent['cookie']}; csrftoken={proof}", x_csrftoken=proof).status
found["with proof"] = call("GET", "/api/v1/me/", **sent, x_csrf_token=proof).status
for path in ("/tools/everwhenx/healthz", "//tools/everwhen/healthz", "/tools//everwhen/healthz", "/healthz"):
    found[path] = Caller(call.app, "")("GET", path).body.startswith(b"{")
for prefix in ("", "/", "//"):
    try:
        mount_api(site, prefix)
    except ImproperlyConfigured:
        found[prefix] = "refused"
json.dump(found, sys.stdout)
"""


def test_the_api_in_a_project_keeps_to_its_prefix_its_hosts_and_its_own_proof(tmp_path: Path) -> None:
    environ = {**os.environ, "SHOP_FOLDER": str(tmp_path), "DJANGO_SETTINGS_MODULE": f"{PROJECT}.settings"}
    answer = subprocess.run(
        [sys.executable, "-c", ATTACK],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    expected: dict[str, object] = {
        "me": 200,
        "evil.example": 421,
        "evil@shop.example.com": 421,
        "example.com.evil.example": 421,
        "two hosts": 400,
        "cookie": "__Secure-everwhen_session",
        "cookie alone": 401,
        "csrftoken": 401,
        "with proof": 200,
    }
    others = ("/tools/everwhenx/healthz", "//tools/everwhen/healthz", "/tools//everwhen/healthz", "/healthz")
    assert found == expected | dict.fromkeys(others, False) | dict.fromkeys(("", "/", "//"), "refused")


def test_a_worker_runs_what_others_fire_and_fires_nothing_itself(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/everwhen.db", name="shop")
    try:
        with managing(tmp_path, "up"):
            until(lambda: [one for one in scheduler.schedules() if one.id == "tick" and one.run_count])
        fired = scheduler.get_schedule("tick").fire_count
        with managing(tmp_path, "worker") as worker:
            done = scheduler.trigger("confirm").wait(PATIENCE)
            assert (done.status, done.result) == ("succeeded", "confirmed 42")
        assert worker.returncode == 0
        assert scheduler.get_schedule("tick").fire_count == fired
        assert scheduler.get_schedule("report").status == "active"  # it declares nothing, and removes nothing
    finally:
        scheduler.close()


def test_check_proves_what_is_declared_and_what_is_on_record(tmp_path: Path) -> None:
    missing = manage(tmp_path, "everwhen", "check")
    assert missing.returncode == 1
    assert "there is no database" in missing.stderr
    with managing(tmp_path, "up"):
        scheduler = Scheduler(f"sqlite:///{tmp_path}/everwhen.db", name="shop")
        try:
            until(lambda: [one for one in scheduler.schedules() if one.id == "tick" and one.run_count])
        finally:
            scheduler.close()
    checked = manage(tmp_path, "everwhen", "check")
    assert checked.returncode == 0, checked.stderr
    assert "3 schedules are declared" in checked.stdout
    assert "every slot has exactly one entry" in checked.stdout


def test_the_database_of_the_settings_is_used_or_one_of_its_own() -> None:
    postgres = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}
    assert database_url(postgres) == "postgresql:///shop"
    assert database_url({**postgres, "HOST": "::1", "USER": "ada"}) == "postgresql://ada@[::1]/shop"
    assert database_url({**postgres, "HOST": "/run/pg", "PORT": "6432", "PASSWORD": ""}) == (
        "postgresql://:6432/shop?host=%2Frun%2Fpg"
    )
    for name in (":memory:", "file:memorydb_default?mode=memory&cache=shared"):
        assert database_url({"ENGINE": "django.db.backends.sqlite3", "NAME": name}) == "sqlite://"
    with pytest.raises(ImproperlyConfigured, match=r'is "django\.db\.backends\.mysql"; name a database'):
        database_url({"ENGINE": "django.db.backends.mysql", "NAME": "shop"})


def test_the_address_of_a_postgresql_in_the_settings_can_be_opened(everwhen_on_18: PostgresDatabase) -> None:
    url = urlsplit(everwhen_on_18.empty())
    fields = {"NAME": url.path[1:], "USER": url.username, "PASSWORD": url.password, "PORT": url.port}
    options = {"connect_timeout": 10, "sslmode": "prefer", **dict(parse_qsl(url.query)), "pool": True}
    settings = {"ENGINE": "django.db.backends.postgresql", "HOST": url.hostname, "OPTIONS": options, **fields}
    scheduler = Scheduler(database_url(settings), name="shop")
    try:
        assert scheduler.schedules() == []
    finally:
        scheduler.close()


def test_unknown_keys_of_the_setting_are_refused() -> None:
    assert read_options({"DATABASE": "sqlite://", "MAX_WORKERS": 2}) == {
        "database": "sqlite://",
        "max_workers": 2,
    }
    with pytest.raises(ImproperlyConfigured, match=r'"NAMES".: unknown key, did you mean "NAME"'):
        read_options({"NAMES": "shop"})
    with pytest.raises(ImproperlyConfigured, match=r'EVERWHEN\["5"\]: unknown key'):
        read_options({5: "shop"})
    with pytest.raises(ImproperlyConfigured, match="EVERWHEN is a dictionary"):
        read_options(["shop"])
