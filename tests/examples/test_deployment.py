"""Examples that cannot be run here: units, containers, manifests and rules, checked by their grammar.

What they say of everwhen has to be true: commands, variables, paths of probes, names of metrics, and times to stop that
are longer than a node takes.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from everwhen.cli.main import COMMANDS
from everwhen.config.read import Host, read_configuration
from everwhen.config.settings import Settings
from everwhen.version import __version__
from everwhen.wiring import plugins_in
from tests.api.test_metrics import NAMES, OF_A_NODE
from tests.examples.running import BIN, EXAMPLES

SHUTDOWN = Settings().shutdown_timeout
IMAGE = f"everwhen:{__version__}"
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))


def documents(*path: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((EXAMPLES.joinpath(*path)).read_text()) if one is not None]


def check_configuration(text: str, folder: Path) -> None:
    (folder / "everwhen.yaml").write_text(text)
    host = Host({}, lambda: "UTC", 0, plugins_in)
    assert read_configuration(folder / "everwhen.yaml", host).declared.schedules


def test_every_example_says_what_it_shows_and_how_to_run_it() -> None:
    folders = [path for path in EXAMPLES.iterdir() if path.is_dir()]
    assert len(folders) >= 16
    readmes = {path.name: (path / "README.md").read_text() for path in folders}
    assert [name for name, text in readmes.items() if not text.startswith("# ")] == []
    assert [name for name, text in readmes.items() if "```sh\n" not in text and name != "grafana"] == []
    for name, text in readmes.items():
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (EXAMPLES / name / target).exists(), (name, target)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_of_systemd_is_sound_and_fits_the_node(unit: Path, tmp_path: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    assert parser.sections() == ["Unit", "Service", "Install"]
    service = parser["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")  # jobs do not speak for the node
    assert int(service["WatchdogSec"]) > 0 and service["Restart"] == "always"
    assert service["KillMode"] == "mixed"  # the jobs of a node that stops are not interrupted
    assert int(service["TimeoutStopSec"]) > SHUTDOWN
    program, command = service["ExecStart"].split()
    assert program.endswith("/everwhen") and command in COMMANDS
    assert "-HUP" in service["ExecReload"]
    if (verifier := shutil.which("systemd-analyze")) is not None:
        copy = tmp_path / unit.name.replace("@", "@1")
        copy.write_text(unit.read_text().replace(program, str(BIN / "everwhen")))
        done = subprocess.run(
            [verifier, "verify", copy], capture_output=True, text=True, check=False, timeout=60
        )
        assert [line for line in done.stderr.splitlines() if unit.stem in line] == []


def test_all_units_open_one_database_with_the_same_settings() -> None:
    settings = [
        [
            line
            for line in unit.read_text().splitlines()
            if line.startswith(("Environment", "WorkingDirectory"))
        ]
        for unit in UNITS
    ]
    assert len(settings) == 2 and settings[0] == settings[1]
    assert any("EVERWHEN_DATABASE=" in line for line in settings[0])


def test_the_container_file_builds_and_starts_what_there_is() -> None:
    text = (EXAMPLES / "containers" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in lines} <= known
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    assert [name for _, name in stages] == ["build", ""]
    assert set(re.findall(r"from=(\w+)", text)) == {"build"}
    copied = [source for word, rest in lines if word == "COPY" for source in rest.split()[:-1]]
    assert [source for source in copied if not (EXAMPLES.parent / source).exists()] == []
    assert {"pyproject.toml", "src", "LICENSE", "README.md"} <= set(copied)
    last = text.rpartition("\nFROM ")[2]
    assert "\nUSER everwhen\n" in last and last.endswith('ENTRYPOINT ["everwhen"]\nCMD ["up"]\n')
    assert set(re.findall(r"everwhen\[([\w,]+)\]", text)) == set(re.findall(r"'\.\[([\w,]+)\]'", text))


def test_the_compose_file_runs_every_role_on_one_database(tmp_path: Path) -> None:
    (compose,) = documents("containers", "compose.yaml")
    nodes = {name: one for name, one in compose["services"].items() if one["image"] == IMAGE}
    assert {name: one["command"] for name, one in nodes.items()} == {
        "scheduler": ["scheduler"],
        "worker": ["worker"],
        "api": ["api"],
    }
    for one in nodes.values():
        assert one["init"] and float(one["stop_grace_period"].removesuffix("s")) > SHUTDOWN
        assert set(one["depends_on"]) <= set(compose["services"])
        assert list(one["environment"]) == ["EVERWHEN_DATABASE"]
    assert all(port.startswith("127.0.0.1:") for one in nodes.values() for port in one.get("ports", ()))
    check_configuration((EXAMPLES / "containers" / "everwhen.yaml").read_text(), tmp_path)
    assert "docker compose logs api" in (EXAMPLES / "containers" / "README.md").read_text()


def test_the_manifests_of_kubernetes_fit_together_and_to_the_node(tmp_path: Path) -> None:
    found = [
        one for path in (EXAMPLES / "kubernetes").glob("*.yaml") for one in documents("kubernetes", path.name)
    ]
    assert all({"apiVersion", "kind", "metadata"} <= set(one) for one in found)
    by_kind = {kind: [one for one in found if one["kind"] == kind] for kind in {one["kind"] for one in found}}
    assert set(by_kind) == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
    (configuration,) = by_kind["ConfigMap"]
    check_configuration(configuration["data"]["everwhen.yaml"], tmp_path)
    labels = []
    for one in by_kind["Deployment"]:
        template = one["spec"]["template"]
        labels.append(template["metadata"]["labels"])
        assert one["spec"]["selector"]["matchLabels"] == labels[-1]
        check_pod(template["spec"], configuration["metadata"]["name"])
    (node,) = by_kind["Deployment"][[one["role"] for one in labels].index("node")]["spec"]["template"][
        "spec"
    ]["containers"]
    assert node["args"] == ["up", "--watch"]
    assert all("subPath" not in one for one in node["volumeMounts"])  # such a file is never replaced
    (service,), (budget,) = by_kind["Service"], by_kind["PodDisruptionBudget"]
    assert service["spec"]["selector"] in labels and budget["spec"]["selector"]["matchLabels"] in labels


def check_pod(pod: dict[str, Any], configuration: str) -> None:
    assert pod["terminationGracePeriodSeconds"] > SHUTDOWN and pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["configuration"]["configMap"]["name"] == configuration
    (container,) = pod["containers"]
    assert container["image"] == IMAGE and container["args"][0] in COMMANDS
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    ports = {one["name"] for one in container.get("ports", ())}
    probes = [probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")]
    assert all(probe["port"] in ports for probe in probes)
    assert {probe["path"] for probe in probes} <= {"/healthz", "/readyz"}


def test_the_rules_and_the_scraping_of_prometheus_name_metrics_and_files_that_there_are() -> None:
    (rules,), (prometheus,) = documents("prometheus", "alerts.yml"), documents("prometheus", "prometheus.yml")
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        asked = set(re.findall(r"everwhen_\w+", rule["expr"]))
        assert asked and asked <= {*NAMES, *OF_A_NODE}, rule
        assert all(rule["expr"].count(a) == rule["expr"].count(b) for a, b in ("()", "[]", "{}"))
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    folder = EXAMPLES / "prometheus"
    assert all((folder / name).exists() for name in prometheus["rule_files"])
    assert all((folder / source).exists() for source in mounted_files())


def mounted_files() -> Iterator[str]:
    (compose,) = documents("prometheus", "compose.yaml")
    for one in compose["services"].values():
        yield from (volume.partition(":")[0] for volume in one["volumes"])
