"""Each extra on its own: what the code imports is declared, and where an extra is missing a sentence names it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.environment import without_settings
from tests.release.building import ROOT, link_packages
from tools.sbom import closure_of, extras, requirements_of

# What a user does first with each extra: without the extra the sentence is printed, with it nothing is.
PROBES = {
    "postgres": "from everwhen.database import load_postgres; load_postgres()",
    "rq": "from everwhen.wiring import open_links, open_queue; open_queue('rq').close(); open_links(None).close()",
    "celery": "from everwhen.wiring import open_queue; open_queue('celery').close()",
    "mcp": """
from everwhen.cli.api_server import mounts_of
from everwhen.config.settings import ApiSettings
mounts_of(ApiSettings(mcp=True))
import everwhen.mcp.stdio
""",
    "apprise": """
from everwhen.alerts.apprise import AppriseChannel
answer = AppriseChannel().send("nonsense", None).answer
assert answer == "this is not a URL that Apprise knows", answer
""",
    "otel": """
import logging
logging.basicConfig()
from everwhen.telemetry.traces import observer_of_traces
observer_of_traces({"OTEL_SERVICE_NAME": "shop"})
""",
    "django": """
from everwhen.django import get_scheduler
from everwhen.errors import SchedulerError
try:
    get_scheduler()
except SchedulerError:
    raise
except Exception as error:  # Django itself misses its settings
    assert "settings are not configured" in str(error), error
""",
    "flask": """
from everwhen.flask import EverwhenFlask
try:
    from flask import Flask
except ImportError:  # no application without it: everwhen.flask imports nothing of Flask
    raise SystemExit("pip install 'everwhen[flask]'")
app = Flask("shop")
app.config["EVERWHEN_DATABASE"] = "sqlite://"
EverwhenFlask(app).close()
""",
}
# FastAPI brings the API of OpenTelemetry along, today: the probe has to hide it.
HIDDEN = {"otel": "import sys; sys.modules['opentelemetry.trace'] = None\n"}
NOT_AN_EXTRA = {"pytest": "everwhen.testing is a plugin of pytest, which loads it"}


def run_probe(python: Path, program: str, folder: Path) -> str:
    done = subprocess.run(
        [python, "-c", program],
        cwd=folder,
        env={**without_settings(), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stderr


def test_every_extra_has_a_probe() -> None:
    assert sorted(PROBES) == extras()


@pytest.mark.parametrize("extra", sorted(PROBES))
def test_an_extra_that_is_missing_is_named_and_with_what_it_declares_the_code_works(
    python: Path, extra: str, tmp_path: Path
) -> None:
    assert f"pip install 'everwhen[{extra}]'" in run_probe(
        python, HIDDEN.get(extra, "") + PROBES[extra], tmp_path
    )
    base = closure_of()
    link_packages((one for name, one in closure_of([extra]).items() if name not in base), tmp_path)
    assert run_probe(python, PROBES[extra], tmp_path) == ""


def test_what_the_code_imports_is_required_by_name() -> None:
    ours = distribution("everwhen")
    declared = {canonicalize_name(one.name) for one in requirements_of(ours, extras())} - {"everwhen"}
    known = packages_distributions()
    imported = dict(third_party_imports())
    undeclared = {
        name: path
        for name, path in imported.items()
        if name not in NOT_AN_EXTRA and not declared & {canonicalize_name(one) for one in known[name]}
    }
    assert undeclared == {}


def third_party_imports() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for name in names_in(node):
                top = name.partition(".")[0]
                if top != "everwhen" and top not in sys.stdlib_module_names:
                    yield top, str(path)


def names_in(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [node.module or ""]
        case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(name)), *_]):
            return [name]
    return []
