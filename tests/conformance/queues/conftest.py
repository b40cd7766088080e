"""A site of every kind, shared by the tests of a module, because processes are expensive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.verify.ledger import check_ledger
from tests.conformance.queues.site import CELERY, LOCAL, RQ, QueueSite
from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="module", params=[RQ, CELERY, LOCAL], ids=lambda kind: kind.name)
def running_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[QueueSite]:
    folder: Path = tmp_path_factory.mktemp(request.param.name)
    url = postgres.fresh_database()
    site = QueueSite(request.param, folder, url)
    try:
        site.start_worker("default")
        site.start_worker("poison", again=True)
        site.start_scheduler()
        site.poison()
        yield site
        with site.runtime.ledger.history() as history:
            report = check_ledger(history, site.runtime.clock.now())
        assert report.is_clean, report
    finally:
        site.close()
        postgres.drop_database(url)


@pytest.fixture
def site(running_site: QueueSite) -> QueueSite:
    """Provide the site with a scheduler and a worker of the queue `default`, whatever the previous test did to them."""
    if running_site.scheduler is None:
        running_site.start_scheduler()
    if running_site.workers["default"].has_ended:
        running_site.start_worker("default")
    return running_site
