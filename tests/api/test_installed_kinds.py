"""Kinds of targets that other packages bring: code targets over REST, unless their registration says otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.schedule import Target
from everwhen.model.target_kinds import KINDS as KINDS_OF_OURS
from everwhen.model.token import AccessRole
from tests.api.serving import Answer, Service, serving
from tests.submissions import Submission, create_schedule

MODULE = """
class Plain:
    async def run(self, spec, run): ...

class Shell(Plain):
    runs_code = True

class Post(Plain):
    runs_code = False

class Vague(Plain):
    runs_code = None

class Pigeon(Post):
    keys = {"type": "object", "required": ["loft"], "additionalProperties": False, "properties": {
        "loft": {"type": "string"}, "letter": {"type": "string"}, "stamps": {"type": "object", "properties": {
            "count": {"type": "integer"}}}}}

class Broken(Post):
    def __init__(self):
        raise RuntimeError("no feathers")
"""
KINDS = {"plain": 403, "shell": 403, "post": 200, "vague": 403, "broken": 403, "command": 403, "unknown": 403}


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "kinds_of_a_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kinds-of-a-test\nVersion: 1\n")
    classes = {"plain": "Plain", "shell": "Shell", "post": "Post", "vague": "Vague", "broken": "Broken"}
    classes["pigeon"] = "Pigeon"
    lines = [f"{kind} = kinds_of_a_test:{name}" for kind, name in classes.items()]
    # A name of our own is ours, whatever a package says of it.
    (info / "entry_points.txt").write_text(
        "\n".join(["[everwhen.targets]", *lines, "command = kinds_of_a_test:Post"])
    )
    (tmp_path / "kinds_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def stored(service: Service, kind: str) -> str:
    """A schedule of that kind, as a program adds it."""
    target = Target(kind, '{"argv": ["id"]}')
    create_schedule(service.runtime, Submission(f"a-{kind}", {"every": "1h"}, target, source="api"))
    return f"/schedules/a-{kind}/"


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_another_package_counts_as_code_unless_it_says_otherwise(tmp_path: Path, kind: str) -> None:
    with serving(tmp_path, allow_code_targets=True) as service:
        path = stored(service, kind)
        operator = service.client("operator")
        answer = operator.patch(path, {"payload": {"script": "rm"}})
        assert answer.status == KINDS[kind], answer.raw
        if answer.status == 403:
            assert answer.problem == "forbidden" and "runs code" in answer.fields["detail"]
        assert service.admin.patch(path, {"payload": {"script": "rm -r"}}).status == 200
    with serving(tmp_path) as service:
        assert service.admin.patch(f"/schedules/a-{kind}/", {"payload": {}}).status == KINDS[kind]


def create(service: Service, run: dict[str, Any], role: AccessRole = "operator") -> Answer:
    return service.client(role).post("/schedules/", {"name": "letter", "every": "1h", "run": run})


@pytest.mark.usefixtures("brought")
def test_a_kind_of_another_package_is_created_changed_and_shown_over_rest(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        run = {"pigeon": {"loft": "/tmp", "letter": None, "stamps": {"count": 2}}}
        made = create(service, run)
        assert made.status == 201, made.raw
        assert made.fields["run"] == {"pigeon": {"loft": "/tmp", "stamps": {"count": 2}}}
        assert made.fields["target"] == "pigeon"
        path = f"/schedules/{made.fields['id']}/"
        operator = service.client("operator")
        assert operator.patch(path, {"run": {"pigeon": {"loft": "/srv"}}}).fields["run"] == {
            "pigeon": {"loft": "/srv"}
        }
        refused = operator.patch(path, {"run": {"pigeon": {"lotf": "/srv", "stamps": {"count": "two"}}}})
        assert refused.status == 422
        assert {(one["path"], one["message"]) for one in refused.fields["errors"]} == {
            ("run.pigeon", "loft is required"),
            ("run.pigeon.lotf", 'unknown key, did you mean "loft"?'),
            ("run.pigeon.stamps.count", "'two' is not of type 'integer'"),
        }


@pytest.mark.usefixtures("brought")
def test_a_kind_that_is_not_installed_is_refused_with_the_list_of_what_there_is(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        refused = create(service, {"fax": {}}, "admin")
        assert refused.status == 422
        messages = {one["path"]: one["message"] for one in refused.fields["errors"]}
        assert messages["run.fax"].startswith("unknown key; known keys: command, cwd, env, http,")
        assert messages["run"].endswith("agent, workflow, broken, pigeon, plain, post, shell, vague")


@pytest.mark.usefixtures("brought")
def test_one_that_runs_code_is_for_those_who_may_submit_code(tmp_path: Path) -> None:
    with serving(tmp_path, allow_code_targets=True) as service:
        assert create(service, {"plain": {"what": "ever"}}).problem == "forbidden"
        assert create(service, {"plain": {"what": "ever"}}, "admin").status == 201


@pytest.mark.usefixtures("brought")
def test_openapi_has_a_property_for_every_kind_with_its_keys(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        document = replace(service.nobody, prefix="").get("/api/openapi.json").fields
    schemas = document["components"]["schemas"]
    target = schemas["Target"]
    assert {*KINDS_OF_OURS, "pigeon", "plain", "post"} <= set(target["properties"])
    assert "required" not in target
    assert target["properties"]["pigeon"]["anyOf"][0] == {"$ref": "#/components/schemas/PigeonTarget"}
    pigeon = schemas["PigeonTarget"]
    assert pigeon["required"] == ["loft"] and pigeon["properties"]["loft"] == {"type": "string"}
    body = schemas["ScheduleBody"]["properties"]["run"]
    assert body["anyOf"][0] == {"$ref": "#/components/schemas/Target"}
