"""Errors of runs: the message without type and traceback, of every kind of exception that Python prints."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable

import pytest

from everwhen.model.outcome import message_of, summary_of, type_of

TRACE = "Traceback (most recent call last):\n  File 'c.py', line 1\n"
REPORTED = f"the child failed:\n{TRACE}ValueError: inner"


def boom() -> None:
    raise ValueError("boom")


def caused() -> None:
    try:
        boom()
    except ValueError as error:
        raise ValueError("outer") from error


def handling() -> None:
    try:
        boom()
    except ValueError:
        json.loads("{")


def group() -> None:
    raise ExceptionGroup("two", [ValueError("first"), ValueError("second")])


def caused_group() -> None:
    try:
        boom()
    except ValueError as error:
        raise ExceptionGroup("two", [ExceptionGroup("inner", [error]), error]) from error


def caused_by_a_group() -> None:
    try:
        group()
    except ExceptionGroup as error:
        raise RuntimeError("outer") from error


def noted() -> None:
    error = ValueError("boom")
    error.add_note("at the third file")
    raise error


def without_text() -> None:
    raise StopIteration


def of_a_key() -> None:
    raise KeyError("x")


def with_a_trace_in_its_text() -> None:
    raise RuntimeError(REPORTED)


def in_code() -> None:
    compile("x x", "a.py", "exec")


@pytest.mark.parametrize(
    ("function", "error_type", "message"),
    [
        (boom, "ValueError", "boom"),
        (caused, "ValueError", "outer"),
        (handling, "json.decoder.JSONDecodeError", "Expecting property name enclosed in double quotes"),
        (group, "ExceptionGroup", "two (2 sub-exceptions)"),
        (caused_group, "ExceptionGroup", "two (2 sub-exceptions)"),
        (caused_by_a_group, "RuntimeError", "outer"),
        (noted, "ValueError", "boom\nat the third file"),
        (without_text, "StopIteration", "StopIteration"),
        (of_a_key, "KeyError", "'x'"),
        (with_a_trace_in_its_text, "RuntimeError", REPORTED),
        (in_code, "SyntaxError", "invalid syntax"),
    ],
)
def test_the_message_of_an_exception_has_neither_its_type_nor_its_traceback(
    function: Callable[[], None], error_type: str, message: str
) -> None:
    with pytest.raises(Exception) as caught:  # of any type
        function()
    error = caught.value
    text = "".join(traceback.format_exception(error)).strip()
    assert type_of(error) == error_type
    assert message_of(text, error_type).partition(": line")[0] == message
    assert summary_of(text, error_type).startswith(error_type)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("exit code 1", "exit code 1"),
        ("", ""),
        (TRACE, TRACE),
        (f"timed out after 3s: {TRACE}ValueError: b", "timed out after 3s: ValueError: b"),
        (f"started\n{TRACE}ValueError: b\nend", "ValueError: b\nend"),
    ],
)  # fmt: skip
def test_a_traceback_in_any_other_error_is_left_out_of_its_message(error: str, message: str) -> None:
    assert message_of(error) == summary_of(error, None) == message
