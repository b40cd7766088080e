"""`python -m tests.proof`: let the nemesis rage, judge, and write the report; exit 1 where a promise is broken."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from everwhen.store.opened import store_of
from tests.proof.account import Account, gather
from tests.proof.apart import is_apart, move_apart, settle_in
from tests.proof.callers import Callers
from tests.proof.nemesis import Nemesis
from tests.proof.plan import draw_plan
from tests.proof.report import Trial, spell
from tests.proof.users import Users
from tests.proof.verdict import bring_to_rest, broken_promises
from tests.proof.watchers import Mark
from tests.proof.worlds import WORLDS, World, WorldKind, a_world


def main(arguments: Sequence[str]) -> int:
    move_apart(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exits through the code that removes everything
    fields = _parser().parse_args(arguments)
    if is_apart():
        settle_in()
    trials = [_trial(fields, kind) for kind in fields.world]
    report = spell(trials)
    if fields.report is not None:
        fields.report.parent.mkdir(parents=True, exist_ok=True)
        fields.report.write_text(report)
    print(report, flush=True)
    return 1 if any(trial.broken for trial in trials) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.proof", description=__doc__)
    parser.add_argument(
        "--world", action="append", choices=WORLDS, required=True, help="may be given several times"
    )
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for how long faults are inflicted on each world"
    )
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between faults, on average")
    parser.add_argument(
        "--longest", type=float, default=60.0, help="no fault lasts longer than so many seconds"
    )
    parser.add_argument("--report", type=Path, help="where the report goes, besides standard output")
    parser.add_argument("--keep", type=Path, help="where the logs of the nodes go")
    return parser


def _trial(fields: argparse.Namespace, kind: WorldKind) -> Trial:
    tell = _teller()
    with a_world(kind, machines=fields.machines, seconds=fields.seconds) as world:
        kinds, refused = world.faults()
        plan = draw_plan(
            fields.seed,
            kinds,
            seconds=fields.seconds,
            machines=len(world.machines),
            every=fields.every,
            longest=fields.longest,
        )
        tell(f"{world.title}: {len(plan)} faults in {fields.seconds:g} s, seed {fields.seed}")
        nemesis, users = Nemesis(world, tell), Users(world, fields.seed, every=0.7)
        nemesis.begin()
        callers = Callers(world, fields.seed, every=0.7)
        callers.subscribe()
        mark = Mark.now(world.stack.runtime)
        users.start()
        callers.start()
        try:
            diary = nemesis.rage(plan, fields.seconds)
        finally:
            users.leave()
            callers.leave()
        restless = bring_to_rest(world, nemesis, diary, callers)
        account = gather(world, mark)
        broken = [*restless, *broken_promises(account, world, diary, users, callers)]
        if fields.keep is not None:
            _keep(world, account, broken, fields.keep / kind)
        return Trial(
            world, fields.seed, _command(fields, kind), diary, users, callers, refused, account, broken
        )


def _command(fields: argparse.Namespace, kind: str) -> str:
    reported = (
        f"--world {kind} --seed {fields.seed} --seconds {fields.seconds:g} --machines {fields.machines}"
    )
    return f"python -m tests.proof {reported} --every {fields.every:g} --longest {fields.longest:g}"


def _keep(world: World, account: Account, broken: Sequence[str], where: Path) -> None:
    """Keep the logs, the events of the system, and the full record of the schedules that broke a promise."""
    shutil.copytree(world.folder, where, dirs_exist_ok=True)
    if world.postgres is not None:
        shutil.copy(world.postgres.folder / "log", where / "postgres.log")
    named = "\n".join(broken)
    uids = {fault.uid for fault in account.ledger.faults if fault.uid}
    uids |= {job.uid for job in account.jobs.values() if job.uid in named or job.schedule_id in named}
    with (
        store_of(world.stack.runtime).ledger.history(sorted(uids)) as record,
        (where / "faults.txt").open("w") as file,
    ):
        print("system", *record.system, sep="\n", file=file)
        for history in record.histories if uids else ():
            print(
                history.schedule_id,
                history.uid,
                history.state,
                *history.revisions,
                *history.events,
                *history.jobs,
                sep="\n",
                file=file,
            )


def _teller() -> Callable[[str], None]:
    began = time.monotonic()

    def tell(fields: str) -> None:
        print(f"{time.monotonic() - began:6.1f}  {fields}", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
