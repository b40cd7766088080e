"""The output of runs, as the stores keep it."""

from __future__ import annotations

from everwhen.model.outcome import OutputGap, OutputPiece, OutputStream
from tests.conformance.tenant import Tenant

OUT = OutputStream("sched-a-n1-rc0", 1, "stdout")
ERR = OutputStream("sched-a-n1-rc0", 1, "stderr")


def test_pieces_are_kept_in_order_and_a_piece_that_grew_replaces_itself(runtime: Tenant) -> None:
    slots, ledger = runtime.runtime.slots, runtime.runtime.ledger
    slots.write_output(runtime.now, [OutputPiece(OUT, 3, b"def"), OutputPiece(OUT, 0, b"abc")], [])
    slots.write_output(runtime.now, [OutputPiece(OUT, 3, b"def\xff\x00"), OutputPiece(ERR, 0, b"no")], [])
    assert ledger.output(OUT.job_id) == [
        OutputPiece(ERR, 0, b"no"),
        OutputPiece(OUT, 0, b"abc"),
        OutputPiece(OUT, 3, b"def\xff\x00"),
    ]
    assert ledger.output("sched-b-n1-rc0") == []


def test_what_lies_in_a_gap_is_dropped_and_its_edges_stay(runtime: Tenant) -> None:
    slots, ledger = runtime.runtime.slots, runtime.runtime.ledger
    pieces = [OutputPiece(OUT, position, b"0123456789") for position in range(0, 60, 10)]
    slots.write_output(runtime.now, [*pieces, OutputPiece(ERR, 20, b"kept")], [OutputGap(OUT, 10, 45)])
    assert [piece.position for piece in ledger.output(OUT.job_id)] == [20, 0, 40, 50]
