"""A client that has gone wild, in a process of its own: it creates and triggers as fast as it can until its input ends.

It prints how often each answer came, and in how many seconds, as JSON.
"""

import argparse
import json
import os
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import count
from time import perf_counter
from urllib.parse import urlsplit

THREADS = 8
TOKEN = "EVERWHEN_BENCH_RUNAWAY"
BODY = {"every": "1d", "first_run": "after_interval", "run": {"message": {"text": "x"}}}


def attack(address: str, path: str, over: threading.Event) -> Counter[str]:
    """Create, trigger, and create what fires too often, in turns on one connection."""
    client = HTTPConnection(urlsplit(address).netloc)
    headers = {"Authorization": f"Bearer {os.environ[TOKEN]}", "Content-Type": "application/json"}
    calls: tuple[tuple[str, str, object], ...] = (
        ("create", "/schedules/", BODY),
        ("trigger", path, {}),
        ("create too often", "/schedules/", {**BODY, "every": "1s"}),
    )
    found: Counter[str] = Counter()
    for number in count():
        if over.is_set():
            client.close()
            return found
        name, path_of_call, body = calls[number % len(calls)]
        client.request("POST", f"/api/v1{path_of_call}", json.dumps(body), headers)
        answer = client.getresponse()
        answer.read()
        found[f"{name} {answer.status}"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("path")
    options = parser.parse_args()
    over = threading.Event()
    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(attack, options.address, options.path, over) for _ in range(THREADS)]
        began = perf_counter()
        sys.stdin.read()
        over.set()
        answers = sum((one.result() for one in running), Counter[str]())
    print(json.dumps({"answers": answers, "seconds": perf_counter() - began}))


if __name__ == "__main__":
    main()
