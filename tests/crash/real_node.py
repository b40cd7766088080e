"""A worker with the real targets, as a process of its own, whose host the tests take the descriptors of."""

from __future__ import annotations

import sys

from everwhen.engine.service import ServiceOptions
from everwhen.target_registry import open_target_registry
from everwhen.wiring import build_service, open_stack


def main(url: str) -> None:
    stack = open_stack(url)
    registry = open_target_registry(stack.runtime, max_workers=4, allow_private_urls=True)
    options = ServiceOptions(role="worker", max_workers=4, check_interval=0.2)
    service = build_service(stack, options, target_registry=registry)
    service.start()
    print(service.node, flush=True)
    for _question in sys.stdin:
        print(service.unreadiness(), flush=True)
    service.stop()
    stack.close()


if __name__ == "__main__":
    main(sys.argv[1])
