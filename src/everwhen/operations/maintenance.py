"""Maintenance of the database: backups (complete or absent), the check of the ledger, and retention."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from everwhen.decide.retention import cutoffs
from everwhen.errors import BackupError, CopyError, SchedulerError, UncertainCopyError
from everwhen.model.history import History, ScheduleHistory
from everwhen.model.instants import format_instant
from everwhen.model.node import SILENT
from everwhen.model.retention import ORDER, PASS_START, Kept, Portion, Retention, RetentionPosition
from everwhen.model.vitals import Move, Received
from everwhen.operations.budgets import give_back_leftovers
from everwhen.operations.labels import labels_of
from everwhen.runtime import Progress, Runtime
from everwhen.store.opened import store_of
from everwhen.store.sqlite.files import sync_path
from everwhen.store.sqlite.move import SourceSchema, SqliteMove
from everwhen.timetable.civil_time import zone
from everwhen.verify.entries import LedgerFault
from everwhen.verify.ledger import LedgerReport, check_ledger

if TYPE_CHECKING:
    from everwhen.store.postgres.copy import PostgresCopyTarget  # needs the extra postgres

PORTION = 500
PAGES = 100  # of an SQLite file, given back in one turn


def back_up(
    runtime: Runtime, path: Path, *, may_replace: bool = False, progress: Progress = lambda _share: None
) -> int:
    """Copy the database to `path` while it is in use; return the size in bytes.

    The copy is written under a temporary name, readable by its owner only, and renamed when it is completely on disk.
    """
    if path.is_dir():
        raise BackupError(f"{path} is a directory; name the file that is to be written", path)
    if path.exists() and not path.is_file():
        raise BackupError(f"{path} is a pipe, a device or a socket; name a file that is to be written", path)
    if path.exists() and not may_replace:
        raise BackupError(f"{path} exists already; name another file, or use --force", path)
    growing = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        growing.touch(mode=0o600, exist_ok=False)
        store_of(runtime).upkeep.backup(growing, progress)
        sync_path(growing)
        _put_in_place(growing, path, may_replace)
        sync_path(path.parent)
        _note_backup(runtime)
        return path.stat().st_size
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}; nothing was changed", path) from error
    finally:
        for suffix in ("", "-journal"):
            with suppress(OSError):  # a folder that cannot be written to has none
                Path(f"{growing}{suffix}").unlink(missing_ok=True)


def _note_backup(runtime: Runtime) -> None:
    """Record the backup for `system status`; a database that cannot be written, or is older, goes without."""
    with suppress(SchedulerError):
        store_of(runtime).upkeep.note_backup(runtime.clock.now())


def _put_in_place(growing: Path, path: Path, may_replace: bool) -> None:
    if may_replace:
        growing.replace(path)
        return
    try:
        path.hardlink_to(growing)  # unlike a rename, a link fails if the name was taken meanwhile
    except FileExistsError as error:
        raise BackupError(f"{path} exists already; name another file, or use --force", path) from error


def prove(runtime: Runtime, progress: Progress = lambda _share: None) -> LedgerReport:
    """Check the whole ledger, from one snapshot; the service may run meanwhile."""
    store = store_of(runtime)
    expected = max(sum(store.ledger.counts().schedules.values()), 1)
    with store.ledger.history() as record:
        return check_ledger(_watched(record, expected, progress), runtime.clock.now())


def describe_faults(runtime: Runtime, faults: Sequence[LedgerFault]) -> list[str]:
    """Return a sentence for each fault, with its slot in the zone of its schedule."""
    labels = labels_of(runtime, (fault.uid for fault in faults))

    def place(fault: LedgerFault) -> str:
        if fault.slot_at is None:
            return fault.schedule_id
        label = labels.get(fault.uid)
        where = zone(runtime.timezone if label is None else label.timezone)
        return f"{fault.schedule_id} at {format_instant(fault.slot_at, where)}"

    return [f"{place(fault)}: {fault.sentence}" for fault in faults]


def _watched(record: History, expected: int, progress: Progress) -> History:
    def histories() -> Iterator[ScheduleHistory]:
        for number, history in enumerate(record.histories):
            progress(min(number / expected, 0.99))  # `expected` does not count deleted schedules
            yield history

    return record._replace(histories=histories())


def prune(
    runtime: Runtime,
    retention: Retention | None = None,
    *,
    dry_run: bool = False,
    tell: Callable[[Portion], None] = lambda _portion: None,
    progress: Progress = lambda _share: None,
) -> dict[Kept, int]:
    """Delete everything beyond retention; return the number of deleted rows by kind (a dry run only counts them)."""
    before = cutoffs(retention or Retention(), runtime.clock.now())
    last_rows: dict[Kept, int] = {}  # of the tables, as they are when the pass reaches them
    rows: dict[Kept, int] = {}
    place: RetentionPosition | None = PASS_START
    while place is not None:
        portion = store_of(runtime).upkeep.forget(before, place, limit=PORTION, dry_run=dry_run)
        rows[portion.what] = rows.get(portion.what, 0) + portion.rows
        tell(portion)
        place = portion.next
        if place is not None:
            if place.what not in last_rows:
                last_rows[place.what] = store_of(runtime).upkeep.last_row(place.what)
            share = min(place.after / max(last_rows[place.what], 1), 1.0)
            progress((ORDER.index(place.what) + share) / len(ORDER))
    if not dry_run:
        give_back_leftovers(runtime)
        while store_of(runtime).upkeep.give_space_back(PAGES)[0]:
            pass
    return rows


# The move of an installation to another database, so that each slot fires on only one of the two.
#
# Three commits, in this order: the source is marked `moving` and closed for writers; the target gets all rows
# and the id of the copy; the source is marked `moved`. After the first commit no node starts on the source,
# and none that still has it open can write. The same call recovers from a crash after any of them: it checks
# in the target, with its tables locked, whether it holds this copy, and continues from there. See
# docs/decisions/copy.md.


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
                source.forget_move() if found is None else source.begin_move(found, now=found.at, silent=0)
        raise


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
