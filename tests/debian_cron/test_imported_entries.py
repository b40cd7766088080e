"""What an imported entry runs is what Debian's cron runs: both really run it, and the output is compared.

The shell of the crontab is a program that runs the command with `sh -c`, and keeps its output under the entry's name.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everwhen.compat.importers.crontab import import_crontab
from everwhen.config.yaml_text import written
from everwhen.targets.command import CommandTarget
from tests.config.reading import read
from tests.debian_cron.availability import why_not
from tests.debian_cron.daemon import run_crontab
from tests.targets.running import perform

SHELL = """#!/bin/sh
/bin/sh "$@" > '{folder}'/"$ENTRY" 2>&1
"""
SETTINGS = """
MAILTO=""
HOME=/tmp
PATH=/usr/local/bin:/usr/bin:/bin
GREETING="hello there"
BACKUPS = /var/backups/db # not a comment
OWN_HOME=${HOME}/x
LOGNAME=somebody
"""
ENTRIES = (
    'for f in a b; do echo "${f:-NONE}"; done',
    'echo "${GREETING}" and ${MISSING:-nothing} $GREETING ${GREETING\\%there}',
    "echo ${BACKUPS}/dump-$(date +\\%Y).sql",
    'echo "$OWN_HOME" \'${OWN_HOME}\' "\\${OWN_HOME}" "$${MISSING}" | tr -d 0-9',
    'd=$(mktemp -d) && cd "$d" && touch {a,b}.log && for f in *.log; do echo "${f\\%.log}"; done; rm -r "$d"',
    'test -x /usr/sbin/none || ( cd / && echo "$PWD" )',
    "[ -d /tmp ] && pwd",
    "X=1 sh -c 'echo \"${X} ${1:-no argument}\"' # a comment with ${X}",
    'PGPASSWORD="${PGPASSWORD:-secret}" sh -c \'echo "$PGPASSWORD"\'',
    'i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo "run ${i} of 3"; done',
    'echo "$((16#ff))" || echo "100\\% of ${#GREETING}"',
    'printf "\\%s\\n" "$GREETING" | awk \'{print "${1}", $1}\'',
    "echo a\\nb \"c\\td\" 'e\\\\f' g\\\\h",
    "cat%hello%it's me, ${GREETING}",
    "cat # reads%a\\%b%c\\\\d%",
    "cat%",
    'read line; echo "got ${line}" & wait%given',
    'exec 2>&1; ls /nonexistent-${GREETING:+set} | sed "s/.*ls/ls/"',
    "umask 027; echo ${HOME}:${PATH}",
    "find /etc -maxdepth 1 -name 'host*' -exec echo {} \\; | sort | head -1",
    'echo "${A:-${B:-both}}" "${C-}" "${D:=assigned}" "${D}"',
    'echo "a}b" "${E:-x}y}" "{${GREETING}}"',
    'sh -c "echo $0 ${0##*/}" | cut -c1-2',
    '[ "${RUN:-yes}" = yes ] && echo ok || echo no',
)


def test_what_an_imported_entry_runs_is_what_cron_runs(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(f"NOT COMPARED WITH DEBIAN'S CRON: {reason}")
    of_cron, of_everwhen = (tmp_path / name for name in ("cron", "everwhen"))
    shell = tmp_path / "shell"
    text = f"SHELL={shell}\n{SETTINGS}" + "".join(
        f"ENTRY={number}\n* * * * * {entry}\n" for number, entry in enumerate(ENTRIES)
    )
    _keep_output(shell, of_cron)
    run_crontab(text)
    _keep_output(shell, of_everwhen)
    for schedule in read(tmp_path, written(import_crontab(text).document)).declared.schedules:
        perform(CommandTarget(), json.loads(schedule.target.spec))
    assert _outputs(of_everwhen) == _outputs(of_cron)


def _keep_output(shell: Path, folder: Path) -> None:
    folder.mkdir()
    shell.write_text(SHELL.format(folder=folder))
    shell.chmod(0o755)


def _outputs(folder: Path) -> dict[str, str]:
    return {ENTRIES[int(file.name)]: file.read_text() for file in sorted(folder.iterdir())}
