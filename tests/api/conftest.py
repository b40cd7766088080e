"""One server for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.serving import Service, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("api")) as found:
        yield found
