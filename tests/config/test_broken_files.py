"""Every mistake is named with file, line and cure, and all of a file are named at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.errors import ConfigError
from tests.config.broken_files import BROKEN
from tests.config.reading import mistakes, read


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_broken_file_is_reported(tmp_path: Path, name: str) -> None:
    broken = BROKEN[name]
    assert sorted(mistakes(tmp_path, broken.text)) == sorted(f"everwhen.yaml:{line}" for line in broken.lines)


def test_the_table_is_long_enough_to_be_trusted() -> None:
    assert len(BROKEN) >= 80


def test_a_broken_file_is_refused_whole_with_one_line_per_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "service: {a: 1}\nschedules: [{id: x, b: 2, every: 1m, run: {command: [ls]}}]")
    assert len(str(caught.value).splitlines()) == 2
