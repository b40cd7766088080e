"""Distinguishes a user before a command, as system crontabs have it, from a program: both are one word after the time.

It sees only this machine, and the entry may come from another one. A user of this machine counts as one unless a
program has the name, too; any other word only if there is no such program here, and what follows begins a command.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from functools import cache

USER = re.compile(r"[a-z_][\w.-]*\$?", re.IGNORECASE)
_USERS = ("root", "nobody", "www-data")  # those of this machine count, too
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BUILTINS = frozenset(
    ". alias break case cd command continue do eval exec exit export fg for function getopts hash if jobs let local"
    " read return select set shift source trap type ulimit umask unset until wait while".split()
)
# Programs that take another one or its script as an argument, and may not be installed where the crontab is imported.
_WRAPPERS = frozenset(
    "python pypy php perl ruby lua node java bun deno bash zsh ksh fish csh tcsh Rscript julia pwsh tclsh nice ionice"
    " timeout setsid chpst sudo doas su ssh sshpass nohup time xargs chronic cronic cronitor rsync scp gsutil docker"
    " podman kubectl rake bundle npm npx pnpm yarn uv uvx pipx poetry conda composer drush wp".split()
)
# At the end of a name, such as dotenv and setlock.
_WRAPPER_ENDINGS = ("env", "exec", "wrap", "run", "lock")
_BEGINS = frozenset(  # and are no subcommands of other programs
    "[ [[ { ( ! if for while case cd sh bash dash zsh ksh python python2 python3 php perl ruby node java nice ionice"
    " flock timeout nohup sudo curl wget tar run-parts pg_dump pg_dumpall psql vacuumdb mysqldump mariadb-dump certbot"
    " rsync docker".split()
)
_OPERATORS = ("-", "&", "|", ";", ">", "<", "2>", "#")  # or an option, and not a command
_SCRIPT = re.compile(r".*\.(?:sh|bash|py|pl|php|rb|js|jar)")
_PROGRAM_FOLDER = re.compile(r"/(?:\S*/)?s?bin/\S+")
_TEST = re.compile(r"test -[a-z] |command -v ")


def names_user(command: str, path: str | None) -> bool:
    """Return whether the first word is a user of this machine, and stands before a command."""
    first, rest = _split_first(command)
    if first not in _users() or not rest or rest.startswith(_OPERATORS):
        return False
    return begins_command(rest) if _is_program(first, path) else True


def seems_user(command: str, path: str | None) -> bool:
    """Return whether the first word is not a program of this machine, and stands before a command.

    `path`: the PATH of the crontab.
    """
    first, rest = _split_first(command)
    if not USER.fullmatch(first) or _SCRIPT.fullmatch(first) or _is_wrapper(first):
        return False
    return bool(rest) and begins_command(rest) and not _is_program(first, path)


def begins_command(text: str) -> bool:
    """Return whether a text is a command, and not the arguments of one.

    >>> begins_command("cd /srv && ./tidy"), begins_command("/opt/shop/poll.py -v"), begins_command("renew --quiet")
    (True, True, False)
    """
    first = _split_first(text)[0].rstrip(";")
    if first in _BEGINS or first.startswith(("(", "./")) or _TEST.match(text.lstrip()):
        return True
    if not first.startswith(("/", "~/", "$HOME/")):
        return False
    return bool(_PROGRAM_FOLDER.fullmatch(first) or _SCRIPT.fullmatch(first) or shutil.which(first))


def _split_first(text: str) -> tuple[str, str]:
    """Split the first word off, behind which spaces or tabs stand."""
    first, *rest = text.split(None, 1)
    return first, "".join(rest)


def _is_wrapper(word: str) -> bool:
    return word.rstrip("0123456789.") in _WRAPPERS or word.endswith(_WRAPPER_ENDINGS)


def _is_program(word: str, path: str | None) -> bool:
    folders = [folder for folder in (path, os.environ.get("PATH"), _PATH) if folder]
    return word in _BUILTINS or shutil.which(word, path=os.pathsep.join(folders)) is not None


@cache
def _users() -> frozenset[str]:
    return frozenset((*_USERS, *(user.pw_name for user in pwd.getpwall())))
