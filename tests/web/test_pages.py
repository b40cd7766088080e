"""The dashboard as a server sends it: one page, its files, its policy, and how large it is."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest

from everwhen.web.assets import first_modules, load_assets, modules_of, page_modules
from everwhen.web.routes import PAGES, POLICY, dashboard_routes
from tests.api.serving import Answer, Client, Service, serving

ADDRESSES = (
    "/",
    "/schedules",
    "/schedules/withings.poll",
    "/jobs/sched-a-n1-rc0",
    "/new",
    "/sign-in",
    "/week",
)
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
OWN = [path for path in load_assets() if path.endswith(".js") and not path.startswith("vendor/")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("web"), further=dashboard_routes()) as found:
        yield found


def fetch(service: Service, path: str, **headers: str) -> Answer:
    return Client(service.url, None, prefix="").get(path, **headers)


class References(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.found += [value for name, value in attrs if name in ("src", "href") and value]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_is_the_page_and_its_references_lead_to_files(service: Service, address: str) -> None:
    answer = fetch(service, address)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = References()
    page.feed(answer.raw.decode())
    assert len(page.found) > 15 and not any("//" in one or one.startswith("/") for one in page.found)
    for reference in page.found if address == "/schedules/withings.poll" else page.found[:3]:
        assert fetch(service, urljoin(address, reference)).status == 200, reference


OF_ADDRESSES = {
    "/": "now",
    "/schedules": "schedules",
    "/schedules/a": "schedule",
    "/jobs/a": "job",
    "/quiet-hours": "quiet",
}


@pytest.mark.parametrize(("address", "module"), OF_ADDRESSES.items())
def test_an_address_names_the_modules_of_its_page_beforehand(
    service: Service, address: str, module: str
) -> None:
    named = re.findall(r'modulepreload" href="([^"]+)', fetch(service, address).raw.decode())
    for path in (*first_modules(), *modules_of(f"pages/{module}.js")):
        assert sum(one.endswith(f"/{path}") for one in named) == 1, path
    assert not any(one.endswith("pages/week.js") for one in named)


def test_every_page_has_its_module() -> None:
    assert set(page_modules()) == {"", *PAGES, "schedules/", "jobs/"} - {"sign-in"}
    assert set(page_modules().values()) <= set(load_assets())


def test_nothing_is_inline_and_the_policy_forbids_it(service: Service) -> None:
    answer = fetch(service, "/")
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY
    assert (
        answer.headers["x-frame-options"] == "DENY" and answer.headers["x-content-type-options"] == "nosniff"
    )
    page = References()
    page.feed(answer.raw.decode())
    for tag, attributes in page.tags:
        assert tag != "style" and not any(name.startswith("on") or name == "style" for name in attributes)
        assert tag != "script" or "src" in attributes
    for path in OWN:
        text = load_assets()[path].plain.decode()
        assert not MARKUP.search(text), path


def test_files_are_kept_for_ever_and_go_with_their_release(service: Service) -> None:
    found = re.search(rb"assets/([0-9a-f]{16})/", fetch(service, "/").raw)
    assert found is not None
    digest = found[1].decode()
    plain = fetch(service, f"/assets/{digest}/main.js")
    packed = fetch(service, f"/assets/{digest}/main.js", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.raw) == plain.raw
    assert "immutable" in plain.headers["cache-control"]
    assert fetch(service, f"/assets/{'0' * 16}/main.js").problem == "not-found"
    assert fetch(service, f"/assets/{digest}/../routes.py").problem == "not-found"
    assert fetch(service, "/nothing").problem == "not-found"
    assert Client(service.url, None, prefix="").post("/schedules", {}).status == 405


def test_modules_import_only_files_that_are_there() -> None:
    for path in load_assets():
        if not path.endswith(".js") or path == "theme.js":
            continue
        text = load_assets()[path].plain.decode()
        for target in re.findall(r'(?:\bfrom ?|^import |\bimport\()"([^"]+\.js)"', text, re.MULTILINE):
            resolved = urljoin(f"http://here/{path}", target).removeprefix("http://here/")
            assert target.startswith(".") and resolved in load_assets(), (path, target)


def test_the_dashboard_is_small() -> None:
    """What a browser downloads: compressed, as it is sent."""
    sizes = {path: len(asset.compressed) for path, asset in load_assets().items()}
    assert sum(sizes.values()) < 200_000
    assert sum(sizes[path] for path in OWN) < 110_000
    assert sum(sizes[path] for path in first_modules() if path in OWN) < 25_000


@pytest.mark.parametrize("path", [path for path in OWN if path.startswith("pages/")])
def test_no_page_needs_more_than_45_kilobytes_of_scripts(path: str) -> None:
    needed = {*first_modules(), *modules_of(path)}
    assert sum(len(load_assets()[one].compressed) for one in needed if one in OWN) < 45_000


def test_each_library_comes_with_its_licence() -> None:
    for name in ("preact", "htm", "signals", "uplot"):
        assert b"opyright" in load_assets()[f"vendor/{name}.LICENSE.txt"].plain


def test_the_files_are_part_of_the_package() -> None:
    folder = Path(__file__).parents[2] / "src" / "everwhen" / "web" / "static"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(
        load_assets()
    )
