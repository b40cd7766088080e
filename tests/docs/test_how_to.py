"""The pages of docs/how-to: all are in the index, and what they do on PostgreSQL is done on a real server.

Everything else on them is carried out with the other snippets of the documentation.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.environment import without_settings
from tests.servers.postgres import PostgresServer

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
SHOWN = "postgresql://everwhen@db.example.com/everwhen"
RUN_HERE = re.compile(
    r"<!-- run by: tests/docs/test_how_to\.py -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_index_names_every_page_once() -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (PAGES / "index.md").read_text(encoding="utf-8"))
    pages = {page.name for page in PAGES.glob("*.md")}
    assert sorted(linked) == sorted(pages - {"index.md"})


def test_the_commands_of_the_page_on_postgresql_print_what_it_shows(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    page = (PAGES / "postgresql.md").read_text(encoding="utf-8")
    on_postgres, moving = RUN_HERE.findall(page)
    text = FILE.findall(page)[0]
    (tmp_path / "everwhen.yaml").write_text(text.replace(SHOWN, postgres_url), encoding="utf-8")
    run(on_postgres, postgres_url, tmp_path)

    on_a_file = text.replace(SHOWN, "sqlite:///everwhen.db")
    (tmp_path / "everwhen.yaml").write_text(on_a_file, encoding="utf-8")
    run("$ everwhen db migrate\n…\n$ everwhen config reload\nreloaded: 1 new\n", postgres_url, tmp_path)
    target = postgres.fresh_database()
    try:
        run(moving, target, tmp_path)
    finally:
        postgres.drop_database(target)


def run(console: str, url: str, folder: Path) -> None:
    """Run the commands of a fence in one shell each, with the server's address; compare what they print."""
    environ = {**without_settings(), "PATH": f"{Path(sys.executable).parent}:{without_settings()['PATH']}"}
    for exchange in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, shown = exchange.partition("\n")
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            environ[name] = value.replace(SHOWN, url)
            continue
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-c", command.replace(SHOWN, url)],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert re.search(form_of(shown, url), done.stdout), f"{command} printed\n{done.stdout}"


def form_of(shown: str, url: str) -> str:
    """Return the pattern of what the page shows: `…` stands for anything, and messages show no password."""
    without_password = re.sub(r":[^:/@]+@", "@", url)
    return ".*".join(re.escape(part.strip()) for part in shown.replace(SHOWN, without_password).split("…"))
