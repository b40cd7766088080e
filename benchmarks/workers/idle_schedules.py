"""The schedules of B25, none of which is due within a year, and where its programs find their database."""

from typing import Any

from benchmarks.workers import calls

DATABASE = "EVERWHEN_BENCH_DATABASE"


def schedules(count: int) -> list[dict[str, Any]]:
    fields = {"every": "365d", "first_run": "after_interval", "run": {"python": calls.named("nothing")}}
    return [{"id": f"s{number}", **fields} for number in range(count)]
