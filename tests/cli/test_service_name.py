"""`service.name`: what tells the nodes and the metrics of one service from those of another."""

from __future__ import annotations

from pathlib import Path

from everwhen.cli.serving import NodeProcess, NodeSettings
from everwhen.config.read import Host, read_configuration
from everwhen.store.opened import store_of
from everwhen.telemetry.metrics import Metrics
from everwhen.wiring import open_node_stack


def test_the_name_of_a_service_is_in_its_nodes_and_in_its_metrics(tmp_path: Path) -> None:
    file = tmp_path / "everwhen.yaml"
    file.write_text(f"service: {{name: billing, database: 'sqlite:///{tmp_path}/x.db'}}")
    configuration = read_configuration(file, Host({}, lambda: "UTC", 0))
    settings = configuration.settings
    stack = open_node_stack(settings.database)
    try:
        service = NodeProcess(NodeSettings("up", file, None), configuration, settings, stack).service
        service.start()
        service.stop()
        (node,) = store_of(stack.runtime).upkeep.nodes()
        assert node.node.startswith("billing-") and len(node.node) > len("billing-")
        text = Metrics(stack.runtime, service=settings.name).text()[0].decode()
        assert 'service="billing"' in text
    finally:
        stack.close()
