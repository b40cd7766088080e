"""A contestant in a child process answers, and its failures arrive as values with a reason."""

import sys
from pathlib import Path

import pytest

from benchmarks.children import Child
from benchmarks.environments import ROOT
from benchmarks.model import Contestant
from benchmarks.rounds import ContestantFailedError


def a_child(*arguments: str, worker: str = "tests.benchmarks.scripted_worker") -> Child:
    return Child(Contestant("scripted", worker, arguments), Path(sys.executable), is_quick=False)


def test_a_child_answers_whatever_its_library_prints() -> None:
    with a_child() as child:
        assert child.check() == {"case": "digest"}
        assert child.label == "scripted 1.0"
        turn = child.run(0, 4)
    assert turn.timings == {"case": (2.0, 4)}
    assert turn.amounts == {"memory": 3.0}
    assert turn.calibration > 0


def test_an_error_in_the_child_is_a_failed_contestant_and_the_child_goes_on() -> None:
    with a_child() as child:
        with pytest.raises(ContestantFailedError, match="RuntimeError: no part 1 here"):
            child.run(1, 4)
        assert child.run(0, 1).timings == {"case": (2.0, 1)}


def test_a_child_that_dies_leaves_its_last_words() -> None:
    with a_child("dies") as child, pytest.raises(ContestantFailedError, match="ended with 1: its last words"):
        child.run(0, 1)


def test_the_place_of_the_checkout_stays_out_of_the_reason() -> None:
    with a_child(worker="benchmarks.no_such_worker") as child:
        with pytest.raises(ContestantFailedError, match="No module named") as failure:
            child.check()
        assert str(ROOT) not in str(failure.value)


def test_a_child_ends_by_itself_when_it_is_no_longer_asked() -> None:
    with a_child() as child:
        child.check()
    assert child.process.returncode == 0
