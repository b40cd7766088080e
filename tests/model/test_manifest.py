from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import ManifestError
from everwhen.model.plugin import missing_config, parse_manifest
from tests.targets.plugins import a_manifest


def test_a_manifest_says_what_a_plugin_can_do() -> None:
    manifest = parse_manifest(
        a_manifest(
            concurrency_safe=False,
            config_keys={"required": ["client_id"], "optional": ["timeout"]},
            fact_outputs=[{"when": {"command": "poll"}, "from": "state_updates", "fact_type": "withings.it"}],
        )
    )
    assert manifest.name == "withings"
    assert [command.name for command in manifest.commands] == ["poll", "token_refresh", "handle", "health"]
    poll, refresh = manifest.command("poll"), manifest.command("token_refresh")
    assert poll is not None and poll.retry_safe and poll.type == "write"
    assert refresh is not None and refresh.retry_safe is False
    assert manifest.command("nothing") is None
    assert not manifest.concurrency_safe
    assert missing_config(manifest, {"timeout": 5}) == ["client_id"]
    assert missing_config(manifest, {"client_id": "me"}) == []


def test_a_plugin_is_safe_to_run_beside_itself_unless_it_says_otherwise() -> None:
    assert parse_manifest(a_manifest()).concurrency_safe


def test_keys_of_a_newer_protocol_are_passed_over() -> None:
    assert parse_manifest(a_manifest(stopwatch={"max_subs": 3}, homepage="somewhere")).name == "withings"


def test_a_command_that_does_not_say_writes() -> None:
    (command,) = parse_manifest(a_manifest(commands=[{"name": "poll"}])).commands
    assert command.type == "write"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"manifest_spec": None}, "manifest_spec is required: ductile.plugin"),
        ({"manifest_spec": "other.plugin"}, 'manifest_spec "other.plugin" is not supported'),
        ({"manifest_version": 2}, 'manifest_version "2" is not supported, only 1'),
        ({"manifest_version": True}, 'manifest_version "True" is not supported, only 1'),
        ({"protocol": 1}, 'protocol "1" is not supported, only 2'),
        ({"protocol": None}, "protocol is required: 2"),
        ({"name": "with blanks"}, 'name "with blanks" must be letters, digits'),
        ({"name": None}, 'name "None" must be letters, digits'),
        ({"entrypoint": None}, "entrypoint is required"),
        ({"entrypoint": "../run.sh"}, "must lie inside the plugin's folder"),
        ({"entrypoint": "/bin/sh"}, "must lie inside the plugin's folder"),
        ({"commands": []}, "commands must be a list with at least one"),
        ({"commands": {"poll": {"type": "read"}}}, "commands must be a list"),
        ({"commands": ["poll"]}, "commands[0]: needs a name"),
        ({"commands": [{"name": "9lives"}]}, "commands[0]: needs a name that begins with a letter"),
        ({"commands": [{"name": "poll", "type": "maybe"}]}, 'type "maybe" must be read or write'),
        (
            {"commands": [{"name": "poll", "input_schema": "url"}]},
            "commands[0].input_schema: must be a mapping",
        ),
        (
            {"commands": [{"name": "poll", "retry_safe": "no"}]},
            "commands[0].retry_safe: must be true or false",
        ),
        ({"commands": [{"name": "poll"}, {"name": "poll"}]}, 'command "poll" is declared twice'),
        ({"config_keys": ["token"]}, "config_keys must be {required"),
        ({"config_keys": {"required": "token"}}, "config_keys.required must be a list"),
        ({"concurrency_safe": "yes"}, "concurrency_safe: must be true or false"),
        ({"fact_outputs": {}}, "fact_outputs must be a list of rules"),
    ],
)
def test_a_wrong_manifest_is_refused_with_what_is_wrong(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(a_manifest(**keys), "plugins/withings/manifest.yaml")
    assert str(caught.value).startswith("plugins/withings/manifest.yaml: ")
    assert problem in str(caught.value)


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest({"manifest_spec": "ductile.plugin"})
    assert len(caught.value.problems) == 5


def test_something_else_than_a_mapping_is_no_manifest() -> None:
    with pytest.raises(ManifestError, match="must be a mapping"):
        parse_manifest(["poll"])
