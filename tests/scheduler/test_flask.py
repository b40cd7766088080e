"""`everwhen.flask`: the extension in an application, and in the processes of a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask, current_app

from everwhen import ConfigError, SchedulerError
from everwhen.flask import EverwhenFlask
from tests.scheduler.test_frameworks import asked, await_runs, check, gunicorn, looking_at, serving
from tests.scheduler.waiting import PATIENCE
from tests.servers.everwhen_database import PostgresDatabase


def an_app(name: str = "shop", **config: object) -> Flask:
    app = Flask(name)
    app.config.update({"EVERWHEN_DATABASE": "sqlite://", **config})
    return app


def test_two_processes_of_gunicorn_fire_each_slot_once_on_one_postgresql(
    tmp_path: Path, everwhen_on_18: PostgresDatabase
) -> None:
    url = everwhen_on_18.empty()
    with looking_at(url) as runtime:
        with serving(url, *gunicorn(tmp_path, "flask_extension:create_app()", 2)) as process:
            await_runs(runtime, 2)
            assert asked(tmp_path / "shop") == "running"
        assert process.returncode == 0
    check(url, 2)


def test_functions_plain_and_async_run_in_the_context_of_the_application() -> None:
    everwhen = EverwhenFlask(an_app("bakery", EVERWHEN_NAME="bakery"))

    @everwhen.every("1d", id="plain")
    def plain() -> str:
        return current_app.name

    @everwhen.every("1d", id="async")
    async def awaited() -> str:
        return current_app.name

    with everwhen:
        assert everwhen.name == "bakery"
        for schedule_id in ("plain", "async"):
            assert everwhen.trigger(schedule_id).wait(PATIENCE).result == "bakery"


def test_what_is_declared_first_is_declared_in_each_application() -> None:
    everwhen = EverwhenFlask(name="shop")

    @everwhen.every("1d", id="report")
    def report() -> str:
        return current_app.name

    with pytest.raises(AttributeError, match="no application yet; call init_app"):
        everwhen.trigger("report")
    for name in ("one", "two"):
        app = an_app(name)
        everwhen.init_app(app)
        assert app.extensions["everwhen"] is everwhen
        everwhen.start()
        assert everwhen.trigger("report").wait(PATIENCE).result == name
        with pytest.raises(SchedulerError, match="stop it before init_app"):
            everwhen.init_app(an_app())
        everwhen.stop()
    everwhen.close()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = everwhen.nonsense  # type: ignore[attr-defined]


def test_a_configuration_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ConfigError, match="EVERWHEN_DATABASE is not set"):
        EverwhenFlask(Flask("shop"))
    with pytest.raises(ConfigError, match='EVERWHEN_NAMES: unknown key, did you mean "EVERWHEN_NAME"'):
        EverwhenFlask(an_app(EVERWHEN_NAMES="shop"))
