"""What `make test` says about packages that are missing, and when it may install them."""

from pathlib import Path

import pytest

from tools.system_packages import Package, may_install, missing, notice


@pytest.mark.parametrize("environment", [{}, {"CI": ""}, {"CI": "false"}, {"EVERWHEN_INSTALL_BROWSER": "0"}])
def test_nothing_is_installed_unasked(environment: dict[str, str]) -> None:
    assert not may_install(environment)


def test_a_package_is_there_when_one_of_its_files_is(tmp_path: Path) -> None:
    (tmp_path / "chromium").touch()
    browser = Package("chromium", (f"{tmp_path}/chrome", f"{tmp_path}/chrom?um"), "the browser tests")
    player = Package("player", (f"{tmp_path}/player",), "the film tests")

    assert missing([browser, player]) == [player]


def test_all_that_is_missing_is_named_in_one_line() -> None:
    line = notice([Package("cron", (), "the comparison"), Package("libfaketime", (), "the comparison")])

    assert line.startswith("SKIPPING the comparison: missing cron libfaketime.")
    assert "apt-get install cron libfaketime" in line
    assert "\n" not in line
