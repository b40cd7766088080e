from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from everwhen.errors import SubmissionError, TimetableError
from everwhen.model.payload import LARGEST_PAYLOAD, payload_text
from everwhen.testing import manual_scheduler

FITS = {"text": "x" * (LARGEST_PAYLOAD - len('{"text": ""}'))}


def test_a_payload_may_be_64_kib_and_not_a_byte_more() -> None:
    s = manual_scheduler()
    s.add("fits", every="1h", payload=FITS)
    larger = {"text": FITS["text"] + "x"}
    with pytest.raises(TimetableError, match="payload is 65537 bytes as JSON; at most 65536 are allowed"):
        payload_text(larger)
    with pytest.raises(SubmissionError, match="payload: is 65,537 bytes long; at most 65,536 are allowed"):
        s.add("larger", every="1h", payload=larger)
    assert s.state("fits").status == "active"


def test_a_payload_by_hand_is_as_large_as_one_that_is_declared() -> None:
    s = manual_scheduler()
    s.add("a", every="1h", payload=FITS)
    s.step()
    with pytest.raises(TimetableError, match="payload is"):
        s.trigger("a", payload={"more": 1})
    assert len(s.jobs()) == 1


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (["a"], "payload must be an object"),
        ("text", "payload must be an object"),
        ({"day": date(2026, 1, 5)}, "payload cannot be written as JSON"),
        ({"n": float("nan")}, "payload cannot be written as JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(payload: Any, complaint: str) -> None:
    with pytest.raises(TimetableError, match=complaint):
        payload_text(payload)
    with pytest.raises(SubmissionError, match="payload"):
        manual_scheduler().add("a", every="1h", payload=payload)


def test_a_payload_that_holds_itself_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["self"] = payload
    with pytest.raises(TimetableError, match="payload cannot be written as JSON"):
        payload_text(payload)
    with pytest.raises(SubmissionError, match="payload"):
        manual_scheduler().add("a", every="1h", payload=payload)
