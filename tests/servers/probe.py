"""Starts both servers in a separate process, and reports their account and program path to a test.

`python -m tests.servers.probe [ACCOUNT] [--die]`: it switches to ACCOUNT permanently before it starts anything, and
with `--die` ends by SIGKILL. It closes nothing itself, so the test sees what the automatic cleanup leaves.
"""

import argparse
import json
import os
import pwd
import signal
import socket

import psycopg

from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("account", nargs="?")
    parser.add_argument("--die", action="store_true")
    asked = parser.parse_args()
    if asked.account:
        _become(asked.account)
    postgres, valkey = PostgresServer(), ValkeyServer()
    postgres.start()
    valkey.start()
    print(json.dumps(_facts(postgres, valkey)), flush=True)
    if asked.die:
        os.kill(os.getpid(), signal.SIGKILL)


def _become(account: str) -> None:
    # Done here rather than by `subprocess`, because the account may not be able to read the interpreter: by now it
    # has loaded all it needs, and only the servers' programs are still to be read.
    entry = pwd.getpwnam(account)
    "loopback".encode("idna")  # the only module that connecting would load later
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _facts(postgres: PostgresServer, valkey: ValkeyServer) -> dict[str, object]:
    with psycopg.connect(postgres.fresh_database()) as connection:
        row = connection.execute("select 1").fetchone()
    with socket.create_connection((LOOPBACK, valkey.port), timeout=10) as client:
        client.sendall(b"PING\r\n")
        pong = client.recv(100).decode().strip()
    return {
        "own_user": os.getuid(),
        "postgres_user": (postgres.folder / "data").stat().st_uid,
        "postgres_bin": str(postgres.bin_folder),
        "postgres_says": row[0] if row else None,
        "valkey_says": pong,
        "folders": [str(postgres.folder), str(valkey.folder)],
    }


if __name__ == "__main__":
    main()
