"""All flows, for the tests that let a fault happen at each of their statements."""

from __future__ import annotations

import pytest

from tests.boundaries.flows import FLOWS
from tests.boundaries.watcher_flows import WATCHER_FLOWS

ALL_FLOWS = (*FLOWS, *WATCHER_FLOWS)

every_flow = pytest.mark.parametrize("flow", ALL_FLOWS, ids=[flow.name for flow in ALL_FLOWS])
