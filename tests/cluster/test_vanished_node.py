"""A machine that vanishes takes its locks with it, whatever its sessions were doing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.proof.apart import MARK, UNSHARE, may_move
from tests.proof.processes import ROOT


@pytest.mark.skipif(not may_move(), reason="needs root, `unshare`, `nsenter` and `ip`")
def test_the_server_lets_go_of_a_client_that_is_gone_before_it_takes_it_for_idle() -> None:
    """One held a row, one waited for it: each would have kept it for as long as a transaction may idle."""
    found = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.cluster.vanishing"],
        cwd=ROOT,
        env={**os.environ, MARK: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.stdout, found.returncode) == ("gone\n", 0), found.stderr
