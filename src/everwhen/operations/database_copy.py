"""The move of an installation to another database, so that each slot fires on only one of the two.

Three commits, in this order: the source is marked `moving` and closed for writers; the target gets all rows and the
id of the copy; the source is marked `moved`. After the first commit no node starts on the source, and none that still
has it open can write. The same call recovers from a crash after any of them: it checks in the target, with its tables
locked, whether it holds this copy, and continues from there. See docs/decisions/copy.md.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

from everwhen.errors import CopyError, SchedulerError, UncertainCopyError
from everwhen.model.database_copy import Move, Received
from everwhen.model.node import SILENT
from everwhen.runtime import Progress
from everwhen.stores.postgres_copy import PostgresCopyTarget
from everwhen.stores.sqlite_move import SourceSchema, SqliteMove


def copy_database(
    source: SqliteMove,
    target: PostgresCopyTarget,
    *,
    to: str,
    now: int,
    is_forced: bool = False,
    progress: Progress = lambda _share: None,
) -> Received:
    """Copy everything, then mark the source as moved; `to` is the target's address without its password.

    `is_forced` ignores what became of an earlier copy to another address.
    """
    found = source.move()
    move = _continued(found, to, is_forced) or Move(secrets.token_hex(8), to, "moving", now)
    is_own = found is None or found.copy_id != move.copy_id
    is_there = False

    def deliver(schema: SourceSchema) -> Received:
        nonlocal is_there
        received = target.receive(move, schema, progress)
        is_there = True
        return received

    if is_own or move.state == "moving":
        source.begin_move(move._replace(state="moving"), now=now, silent=SILENT)
    try:
        return source.hand_over(move._replace(state="moved"), deliver)
    except UncertainCopyError:
        raise
    except BaseException:
        # The mark of an earlier attempt stays: only the target knows whether that attempt succeeded.
        if is_own and not is_there:
            with suppress(SchedulerError):
                _take_back(source, found)
        raise


def _take_back(source: SqliteMove, before: Move | None) -> None:
    if before is None:
        source.forget_move()
    else:
        source.begin_move(before, now=before.at, silent=0)


def _continued(found: Move | None, to: str, is_forced: bool) -> Move | None:
    """Return the move to finish; None if a new one begins."""
    if found is None or (is_forced and found.to != to):
        return None
    if found.to != to:
        was = "was moved" if found.state == "moved" else "may have been moved, by a copy that did not end,"
        raise CopyError(
            f"this database {was} to {found.to}; name that address again, or use --force when you are sure that "
            "nothing runs there"
        )
    return found
