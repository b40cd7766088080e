"""What a run printed, in pieces: each knows where in its stream it begins."""

from __future__ import annotations

from typing import NamedTuple


class OutputStream(NamedTuple):
    """One stream of one attempt of a job."""

    job_id: str
    attempt: int
    stream: str


class OutputPiece(NamedTuple):
    """Bytes of a stream, from a position on."""

    stream: OutputStream
    position: int
    data: bytes


class OutputGap(NamedTuple):
    """What is kept no longer of a stream: pieces that lie whole between two positions."""

    stream: OutputStream
    start: int
    end: int
