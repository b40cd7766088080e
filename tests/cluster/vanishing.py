"""`python -m tests.cluster.vanishing`: a machine loses its cable while a session of its holds a row and another one
waits for it. Says why the server ended them, once a third session, elsewhere, has got the row.

It runs in a network of its own, as the proof does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import psycopg

from everwhen.store.postgres.database import describe_connection
from tests.proof.apart import settle_in
from tests.proof.network import SUBNET, SWITCH_ADDRESS, Cable, lay_switch
from tests.servers.postgres import PostgresServer

URL = "EVERWHEN_TEST_URL"
TAKE = "SELECT * FROM rows_wanted FOR UPDATE"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def hold_and_wait() -> None:
    """The machine: both sessions, until their transactions are cut off from here."""
    url = os.environ[URL]
    holding, waiting = (psycopg.connect(url, **describe_connection(url)) for _ in range(2))
    for connection in (holding, waiting):
        connection.execute("BEGIN")
    holding.execute(TAKE)
    threading.Thread(target=waiting.execute, args=(TAKE,), daemon=True).start()
    while holding.execute(WAITING).fetchone() != (1,):
        pass
    print("both", flush=True)
    while True:  # an answer is on its way at every moment, as in any transaction that is under way
        holding.execute("SELECT 1")


def look_on(server: PostgresServer) -> str:
    url = server.fresh_database()
    with psycopg.connect(url, autocommit=True) as external:
        external.execute("CREATE TABLE rows_wanted AS SELECT 1 AS row")
        cable = Cable(1)
        fields = cable.inside([sys.executable, "-m", "tests.cluster.vanishing", "machine"])
        far = {**os.environ, URL: url.replace("127.0.0.1", SWITCH_ADDRESS)}
        with subprocess.Popen(fields, env=far, stdout=subprocess.PIPE) as machine:
            assert machine.stdout is not None
            assert machine.stdout.readline() == b"both\n"
            cable.pull()
            external.execute(TAKE)
            machine.kill()
        cable.close()
    return (server.folder / "log").read_text()


def main() -> None:
    if "machine" in sys.argv:
        hold_and_wait()
    settle_in()
    lay_switch()
    with PostgresServer(18, also_on=(SWITCH_ADDRESS, SUBNET)) as server:
        said = look_on(server)
    print("idle" if "idle-in-transaction timeout" in said else "gone")


if __name__ == "__main__":
    main()
