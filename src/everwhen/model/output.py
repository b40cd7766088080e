"""The output of a run, in pieces, each with its position in the stream."""

from __future__ import annotations

from typing import NamedTuple


class OutputStream(NamedTuple):
    """One stream of one attempt of a job."""

    job_id: str
    attempt: int
    stream: str


class OutputPiece(NamedTuple):
    """Bytes of a stream, beginning at a position."""

    stream: OutputStream
    position: int
    data: bytes


class OutputGap(NamedTuple):
    """A part of a stream that is no longer kept: the pieces that lie entirely between two positions."""

    stream: OutputStream
    start: int
    end: int
