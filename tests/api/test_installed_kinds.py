"""Kinds of targets that other packages bring: code targets over REST, unless their registration says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.model.schedule import Target
from everwhen.operations.schedules import Submission, create_schedule
from tests.api.serving import Service, serving

MODULE = """
class Plain:
    async def run(self, spec, run): ...

class Shell(Plain):
    runs_code = True

class Post(Plain):
    runs_code = False

class Vague(Plain):
    runs_code = None

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
