"""The bounds of dependencies lie above every version that is known to be unsafe, and the pins lie within the bounds.

A dependency that is added needs a row: the first version without a known advisory, or that there is none.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
# The first version that no advisory is about, and the newest advisory about the one before it.
FIRST_SAFE = {
    "aiohttp": ("3.14.3", "CVE-2026-69244"),
    "anyio": ("4.14.2", "CVE-2026-63349"),
    "celery": ("5.2.2", "CVE-2021-23727"),
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "django": ("5.2.17", "CVE-2026-15307"),
    "fastapi": ("0.109.1", "CVE-2024-24762"),
    "flask": ("3.1.3", "CVE-2026-27205"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "httptools": ("0.5.0", "CVE-2022-32213"),
    "idna": ("3.15", "CVE-2026-45409"),
    "markdown": ("3.8.1", "CVE-2025-69534"),
    "mcp": ("1.28.1", "GHSA-vj7q-gjh5-988w"),
    "pydantic": ("2.4.0", "CVE-2024-3772"),
    "pyjwt": ("2.13.0", "CVE-2026-48526"),
    "python-multipart": ("0.0.32", "CVE-2026-53540"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "redis": ("4.5.4", "CVE-2023-28859"),
    "requests": ("2.33.0", "CVE-2026-25645"),
    "starlette": ("1.3.1", "CVE-2026-54283"),
    "urllib3": ("2.7.0", "CVE-2026-44432"),
    "uvicorn": ("0.11.7", "CVE-2020-7695"),
    "werkzeug": ("3.1.6", "CVE-2026-27199"),
}
NONE_KNOWN = set(
    "apprise click google-re2 jsonschema kombu mcp-types opentelemetry-api prometheus-client psycopg psycopg-pool "
    "referencing rich rq tzdata uvloop watchfiles yarl".split()
)
OF_THE_BUILD = ("dev", "docs")  # extras that nothing of a service uses


def required(*, of_the_build: bool = False) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"]]
    for name, extra in project["optional-dependencies"].items():
        if of_the_build or name not in OF_THE_BUILD:
            lists.append(extra)
    found = [Requirement(text) for listed in lists for text in listed]
    return [one for one in found if one.name != "everwhen"]


def lower_bound(requirement: Requirement) -> Version:
    (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return Version(bound)


def test_every_dependency_has_a_row() -> None:
    names = {canonicalize_name(one.name) for one in required()}
    assert names == FIRST_SAFE.keys() | NONE_KNOWN


@pytest.mark.parametrize("requirement", required(), ids=lambda one: str(one.name))
def test_no_version_with_a_known_advisory_is_within_the_bounds(requirement: Requirement) -> None:
    bound = lower_bound(requirement)
    if known := FIRST_SAFE.get(canonicalize_name(requirement.name)):
        first, advisory = known
        assert bound >= Version(first), f"{requirement.name} before {first}: {advisory}"


def test_the_pins_lie_within_the_bounds() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pins = {
        canonicalize_name(name): Version(version)
        for name, _, version in (one.partition("==") for one in lines)
    }
    outside = [
        str(one)
        for one in required(of_the_build=True)
        if pins[canonicalize_name(one.name)] not in one.specifier
    ]
    assert outside == []
