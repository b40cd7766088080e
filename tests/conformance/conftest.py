"""A runtime on a fresh database of every store; its whole ledger is checked when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.testing.manual import ManualClock
from tests.conformance.stores import STORES, StoreKind
from tests.conformance.tenant import START, Tenant


@pytest.fixture(params=STORES, ids=lambda kind: kind.name)
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tenant]:
    kind: StoreKind = request.param
    server = None if kind.server is None else request.getfixturevalue(kind.server)
    site = kind.lay_out(tmp_path, server)
    tenant = Tenant(site, kind.capabilities, ManualClock(START))
    yield tenant
    report, unrecorded = tenant.check(), tenant.plans_not_on_record()
    tenant.close()
    site.close()
    assert report.is_clean, report
    assert unrecorded == []
