"""A crontab as schedules: what is kept, and what is said about the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from everwhen.compat.importers import Imported
from everwhen.compat.importers.crontab import import_crontab


def schedules(text: str, **keys: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = import_crontab(text, **keys).document["schedules"]
    return found


def notes(text: str, **keys: Any) -> list[str]:
    return [note for note in import_crontab(text, **keys).notes if not note.startswith("commands run in")]


def script(imported: Imported) -> str:
    found: str = imported.document["schedules"][0]["run"]["command"][2]
    return found


def test_an_entry_keeps_the_ways_of_cron() -> None:
    text = "# nightly dump of the shop\n30 2 * * 1-5   /usr/local/bin/backup.sh --full > /dev/null 2>&1"
    assert schedules(text) == [
        {
            "id": "backup",
            "description": "nightly dump of the shop",
            "cron": "30 2 * * 1-5",
            "timezone": "local",
            "if_running": "allow",
            "timeout": 0,
            "run": {"command": ["/bin/sh", "-c", "/usr/local/bin/backup.sh --full > /dev/null 2>&1"]},
        }
    ]


def test_settings_hold_for_the_entries_below_them() -> None:
    text = """
@daily first
SHELL = /bin/bash
CRON_TZ=Asia/Tokyo
GREETING="hello there"
@hourly second
"""
    first, second = schedules(text)
    assert (first["timezone"], first["run"]) == ("local", {"command": ["/bin/sh", "-c", "first"]})
    assert (second["timezone"], second["run"]["command"][0]) == ("Asia/Tokyo", "/bin/bash")
    assert second["run"]["env"] == {"GREETING": "hello there"}


def test_ids_are_used_once_and_comments_belong_to_the_next_line_only() -> None:
    text = "# about a\n* * * * * a\n* * * * * a\n\n# lost\n\n* * * * * FOO=1 cd /x && b.py"
    found = schedules(text)
    assert [entry["id"] for entry in found] == ["a", "a-2", "x"]
    assert [entry.get("description") for entry in found] == ["about a", None, None]


def test_a_system_crontab_names_users() -> None:
    text = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n5 4 * * sun www-data tidy"
    assert [entry["run"]["command"][2] for entry in schedules(text, is_system=True)] == [
        "cd / && run-parts --report /etc/cron.hourly",
        "tidy",
    ]
    assert notes(text, is_system=True) == [
        "line 2: cron runs it as www-data; the service runs it as its own user, or through sudo -u www-data"
    ]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "@reboot warm-up",
            "line 1: left out, @reboot: nothing here runs at boot; let the service manager start warm-up",
        ),
        (
            "MAILTO=ops@example.org",
            (
                "line 1: MAILTO (mail to ops@example.org): output is kept with each job, "
                "and nobody is sent mail"
            ),
        ),
        (
            "MAILTO=''",
            "line 1: MAILTO (no mail): output is kept with each job, and nobody is sent mail",
        ),
        (
            "CRON_TZ=Mars/Base",
            (
                'line 1: CRON_TZ: Unknown time zone "Mars/Base", use an IANA name such as Europe/Paris, or local; '
                "the host's zone is used"
            ),
        ),
        ("61 * * * * x", 'line 1: left out: Invalid cron expression "61 * * * *" - minute must be 0-59'),
        ("* * * *", "line 1: left out, it is not an entry: * * * *"),
        (
            "0 0 12 * * ? 2026 /usr/bin/x",
            "line 1: the command begins with ?: cron reads five fields, and knows no seconds and no years",
        ),
        (
            "*/10 0 2 * * */2 /usr/bin/x",
            "line 1: the command begins with */2: cron reads five fields, and knows no seconds and no years",
        ),
        *(
            (
                f"0 15 10 * * {field} /usr/bin/x",
                (
                    f"line 1: the command begins with {field}: cron reads five fields, "
                    "and knows no seconds and no years"
                ),
            )
            for field in ("MON-FRI", "sun", "tue,thu", "jan-mar", "FRI#3", "6L", "fri,6")
        ),
        (
            "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n5 4 * * * www-data tidy up",
            (
                "line 1: the command begins with root, which is a user; "
                "where the entries name their users, import them with --system"
            ),
        ),
        ("-* * * * * x", "line 1: the minus that keeps it out of the log means nothing here"),
    ],
)
def test_what_cannot_be_kept_is_said_with_its_line(line: str, note: str) -> None:
    assert notes(line) == [note]


@pytest.mark.parametrize(
    "command",
    [
        "svc-shop cd /srv/shop && ./tidy",
        "svc-shop /opt/shop/poll.sh --all",
        "svc-shop  /opt/shop/bin/poll",
        "svc-shop\tcd /srv/shop && ./tidy",
        "svc.shop test -x /usr/sbin/tidy || tidy",
        "svc_shop [ -x /etc/tidy ] && /etc/tidy",
        "shop$ pg_dump shop",
    ],
)
def test_a_word_that_is_no_program_in_front_of_a_command_seems_to_be_a_user(command: str) -> None:
    (note,) = notes(f"0 2 * * * {command}\n0 3 * * * {command}")
    assert note == (
        f"line 1: the command begins with {command.split()[0]}, which is not a program of this machine; "
        "where the entries name their users, import them with --system"
    )


@pytest.mark.parametrize("user", ["/usr/bin/backup", "*", "MON-FRI"])
def test_an_entry_without_a_user_is_named_where_one_is_read(user: str) -> None:
    first, second = notes(f"0 2 * * * {user} --all", is_system=True)
    assert first == (
        f"line 1: {user} is not the name of a user; without --system, entries name none, "
        "and cron knows no seconds and no years"
    )
    assert second.startswith(f"line 1: cron runs it as {user}")


@pytest.mark.parametrize(
    "command",
    [
        "root",
        "root && x",
        "svc-shop",
        "7z a x.7z x",
        "monit reload",
        "sun-tool x",
        "backup --all",
        "[ -x y ] && y",
        # Programs that may not be installed here, with what is no program, or is one that they run.
        "certbot renew",
        "composer install",
        "docker exec shop tidy",
        "drush cron",
        "php8.3 /var/www/cron.php",
        "python3.14 /opt/shop/poll.py",
        "dotenv bash /opt/shop/poll.sh",
        "chronic /usr/local/bin/backup",
        "rdiff-backup /home /mnt/backup",
        "wp cron event run --due-now",
        "svc-backup.sh /usr/local/bin/x",
        # Programs that are installed: the path is searched, and words of the shell are known.
        "sleep /usr/bin/true",
        "cd /srv && /usr/bin/true",
        "if test -x /usr/bin/true; then /usr/bin/true; fi",
        "exec /usr/bin/true",
    ],
)
def test_an_ordinary_command_gets_no_note(command: str) -> None:
    assert notes(f"0 2 * * * {command}") == []


def test_a_user_whose_name_a_program_has_counts_only_in_front_of_a_command(
    tmp_path: Path,
) -> None:
    for name in ("www-data", "svc-shop"):
        (tmp_path / name).touch(mode=0o755)
    path = f"PATH={tmp_path}\n"
    assert notes(f"{path}0 2 * * * www-data tidy up") == []
    assert notes(f"{path}0 2 * * * svc-shop /opt/shop/poll.sh") == []
    (note,) = notes(f"{path}0 2 * * * www-data /opt/shop/poll.sh")
    assert note.startswith("line 2: the command begins with www-data, which is a user;")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (r"date +\%Y", None),
        ("cat%hello%it's me", "hello\nit's me\n"),
        (r"cat%100\%%", "100%\n"),
        (r"cat # all of it%a", "a\n"),
        (r"cat%a\\%b%c\\", "a\\%b\nc\\\\\n"),
        ("cat%", ""),
    ],
)
def test_a_percent_sign_means_what_it_means_to_cron(command: str, said: str | None) -> None:
    imported = import_crontab(f"* * * * * {command}")
    done = subprocess.run(["/bin/sh", "-c", script(imported)], capture_output=True, text=True, check=True)
    if said is None:
        assert done.stdout.strip().isdigit()
        assert not [note for note in imported.notes if "%" in note]
    else:
        assert done.stdout == said
        note = "line 1: what follows % is standard input; it is piped into the command"
        assert (note in imported.notes) == bool(said)


def test_what_everwhen_takes_for_a_reference_to_the_environment_is_escaped() -> None:
    text = "DIR=${HOME}/x\n# of ${USER}\n* * * * * echo ${DIR:-none} $${DIR} $(date)"
    (schedule,) = schedules(text)
    assert schedule["description"] == "of $${USER}"
    assert schedule["run"]["env"] == {"DIR": "$${HOME}/x"}
    assert schedule["run"]["command"][2] == "echo $${DIR:-none} $$${DIR} $(date)"


def test_a_crontab_that_sets_home_runs_there_and_does_not_set_the_user() -> None:
    (schedule,) = schedules("HOME=/srv/shop\nLOGNAME=other\n* * * * * poll")
    assert schedule["run"] == {
        "command": ["/bin/sh", "-c", "poll"],
        "env": {"HOME": "/srv/shop"},
        "cwd": "/srv/shop",
    }
