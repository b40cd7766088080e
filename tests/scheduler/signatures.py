"""Functions of many signatures, and an object with methods, as a program has them at the top level of a module."""

from __future__ import annotations

from typing import Any

from everwhen import Run


def greet(name: str, *, greeting: str = "hello") -> str:
    return f"{greeting} {name}"


def job_of(run: Run) -> str:
    return run.job_id


def between(first: int, execution: Run, last: int) -> list[Any]:
    return [first, execution.schedule_id, last]


def anything(*args: Any, **kwargs: Any) -> list[Any]:
    return [list(args), kwargs]


def defaults(first: int = 1, second: int = 2) -> int:
    return first + second


async def later(name: str, run: Run) -> str:
    return f"{name} in {run.schedule_id}"


class Shop:
    def __init__(self, city: str) -> None:
        self.city = city

    def open(self, hour: int) -> str:
        return f"{self.city} opens at {hour}"

    @classmethod
    def kind(cls) -> str:
        return cls.__name__


SHOP = Shop("Oslo")
