"""References to the environment: resolved when the job runs, never to be read in what it prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.targets.secrets import Secrets, StreamMask, UnresolvedError
from tests.targets.running import Kept

ENVIRONMENT = {"TOKEN": "s3cr3t-value", "SHORT": "abc", "EMPTY": "", "QUOTED": 'a"b\\c d'}


def resolved(fields: object) -> tuple[object, Secrets]:
    secrets = Secrets(ENVIRONMENT)
    return secrets.resolve(fields), secrets


def test_references_are_resolved_wherever_texts_stand() -> None:
    fields, _ = resolved({"argv": ["curl", "-H", "Bearer ${TOKEN}"], "n": 3, "none": None})
    assert fields == {"argv": ["curl", "-H", "Bearer s3cr3t-value"], "n": 3, "none": None}


def test_two_dollars_stand_for_the_text_itself() -> None:
    fields, secrets = resolved("$${TOKEN} $$${TOKEN} ${TOKEN}")
    assert fields == "${TOKEN} $${TOKEN} s3cr3t-value"
    assert secrets.has_any


def test_a_default_stands_where_the_environment_has_nothing() -> None:
    fields, secrets = resolved("${MISSING:-fallback} ${EMPTY:-other} ${EMPTY} $HOME {x} ${1}")
    assert fields == "fallback other  $HOME {x} ${1}"
    assert secrets.mask("fallback other") == "fallback other"


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(UnresolvedError, match="has no MISSING; set it, or give a default"):
        resolved("${MISSING}")


def test_a_value_from_the_environment_is_masked_however_it_is_spelled() -> None:
    _, secrets = resolved("${TOKEN} ${QUOTED}")
    text = 'raw s3cr3t-value json a\\"b\\\\c d url a%22b%5Cc%20d plain a"b\\c d'
    assert secrets.mask(text) == "raw *** json *** url *** plain ***"
    assert secrets.mask(None) is None


def test_a_value_that_was_read_with_its_newline_is_masked_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_FILE", 's3cr"t/value\n')
    secrets = Secrets()
    assert secrets.resolve("${FROM_FILE}") == 's3cr"t/value\n'
    assert secrets.mask('a s3cr"t/value b s3cr\\"t/value c s3cr%22t%2Fvalue d') == "a *** b *** c *** d"


def test_a_value_of_four_characters_is_masked_and_one_of_three_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FOUR", "wxyz")
    monkeypatch.setenv("THREE", "uvw")
    secrets = Secrets()
    assert secrets.resolve("${FOUR} ${THREE} and the rest, ${") == "wxyz uvw and the rest, ${"
    assert secrets.mask("wxyz uvw") == "*** uvw"


def test_a_value_that_nobody_asked_for_or_a_very_short_one_is_not_masked() -> None:
    _, secrets = resolved("${SHORT}")
    assert secrets.mask("abc s3cr3t-value") == "abc s3cr3t-value"


def test_a_value_that_ends_another_ones_beginning_is_masked_whole() -> None:
    mask = StreamMask([b"abcd", b"abcdef", b"dxyz"])
    assert mask.feed(b"..abcd") + mask.feed(b"ef..") + mask.end() == b"..***.."
    assert mask.feed(b"..abcd") + mask.feed(b"..") + mask.end() == b"..***.."
    assert mask.feed(b"abcd") + mask.feed(b"xyz") + mask.end() == b"***xyz"


@given(
    st.lists(st.text("abx ", max_size=6), max_size=12),
    st.sets(st.text("ab", min_size=4, max_size=6), max_size=3),
)
def test_however_a_stream_is_cut_no_value_can_be_read(pieces: list[str], values: set[str]) -> None:
    mask = StreamMask([value.encode() for value in values])
    shown = b"".join([*(mask.feed(piece.encode()) for piece in pieces), mask.end()]).decode()
    whole = StreamMask([value.encode() for value in values]).whole("".join(pieces).encode()).decode()
    assert shown == whole
    assert not any(value in shown for value in values)


def test_each_stream_is_masked_for_itself() -> None:
    _, secrets = resolved("${TOKEN}")
    kept = Kept()
    output = secrets.output(kept)
    for stream, data in (
        ("stdout", b"s3cr3t"),
        ("stderr", b"s3cr"),
        ("stdout", b"-value\n"),
        ("stderr", b"\n"),
    ):
        output.write(stream, data)  # type: ignore[arg-type]
    output.end()
    assert (kept.text("stdout"), kept.text("stderr")) == ("***\n", "s3cr\n")
