"""The account that a server runs as, and whether that account can read a file tree."""

import functools
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from tests.servers.errors import ServerError


@dataclass(frozen=True, slots=True)
class Account:
    """Arguments for `subprocess`; without a user id, the caller's own account."""

    name: str = "your account"
    user: int | None = None
    group: int | None = None

    @property
    def extra_groups(self) -> list[int] | None:
        # An empty list drops root's groups. None keeps the groups: only root may change them.
        return None if self.user is None else []

    def take_over(self, path: Path) -> None:
        """Give a file or folder that we created to this account."""
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


OURSELVES = Account()


def account_for_postgres() -> Account:
    """Return the account for PostgreSQL, which refuses to run as root: root uses one that exists on every system."""
    if os.geteuid() != 0:
        return OURSELVES
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise ServerError(
        "root cannot run PostgreSQL: add an account named postgres or nobody, or test as a user"
    )


@functools.cache
def everyone_can_read(tree: Path) -> bool:
    """Return whether the permission bits let any account reach and read all of `tree`.

    Access lists are not checked: a wrong "no" costs a copy, a wrong "yes" would cost the server.
    """
    tree = tree.resolve()
    if not all(parent.stat().st_mode & stat.S_IXOTH for parent in tree.parents):
        return False
    return all(_is_open_to_all(path) for path in (tree, *tree.rglob("*")))


def _is_open_to_all(path: Path) -> bool:
    mode = path.stat().st_mode
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & needed == needed
