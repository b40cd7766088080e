"""Where the dashboard is, as `everwhen up` says it: a link that signs in on a terminal, the address alone in a log."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

COMMAND = [sys.executable, "-m", "everwhen", "up"]


def said_by_up(folder: Path, *, on_terminal: bool) -> tuple[subprocess.Popen[bytes], int, str]:
    """Start `everwhen up`, and read what it says until it has told the dashboard's address."""
    (folder / "everwhen.yaml").write_text("api: {port: 0}\n")
    reader, writer = os.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    text = ""
    while "dashboard on" not in text or not text.endswith("\n"):
        text += os.read(reader, 4096).decode()
    return process, reader, text


def stop(process: subprocess.Popen[bytes], reader: int) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    os.close(reader)


def test_a_terminal_gets_a_link_that_signs_in(tmp_path: Path) -> None:
    process, reader, text = said_by_up(tmp_path, on_terminal=True)
    try:
        found = re.search(r"dashboard on (http://[^/]+)/sign-in#key=([\w-]+)", text)
        assert found is not None, text
        connection = http.client.HTTPConnection(urlsplit(found[1]).netloc, timeout=30)
        body = json.dumps({"key": found[2]})
        connection.request("POST", "/api/v1/session/link/", body, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 201
        connection.close()
    finally:
        stop(process, reader)


def test_a_log_file_gets_the_address_alone(tmp_path: Path) -> None:
    process, reader, text = said_by_up(tmp_path, on_terminal=False)
    try:
        assert re.search(r"dashboard on http://127\.0\.0\.1:\d+/\n", text) and "key=" not in text
    finally:
        stop(process, reader)
