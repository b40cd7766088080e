"""Nodes: what their rows say about when they ran."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.node import Node

START, BEAT = 10 * MINUTE, 20 * MINUTE


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ({}, BEAT + MINUTE),  # it lives, and beats again
        ({"stopped_at": BEAT + SECOND}, BEAT + SECOND),
        ({"lost_at": BEAT + 60 * MINUTE}, BEAT),  # when it was found lost says nothing about when it died
    ],
)
def test_a_node_was_up_from_its_start_to_what_is_known_of_its_end(end: dict[str, Any], last: int) -> None:
    node = Node("n", "1", True, True, START, BEAT, **end)
    asked = (START - SECOND, START, BEAT, last, last + SECOND)
    assert [node.was_up_at(instant) for instant in asked] == [False, True, True, True, False]
