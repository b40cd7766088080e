from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rows.node import WorkingNode


@pytest.fixture
def working_node() -> Iterator[WorkingNode]:
    node = WorkingNode()
    yield node
    node.close()
