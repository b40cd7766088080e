"""The files of the dashboard: read once, made smaller and compressed once, named with their digest.

There is no build step: a browser loads the modules as they are written, without their comments. They lie under a
folder that is named with the digest of all of them, so that a browser may keep them for ever, and never mixes those of
two releases.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import normpath
from threading import Lock
from typing import NamedTuple

from everwhen.engine.loop import low_priority
from everwhen.web.smaller import shrink

_MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
FOLDER = "assets"
DEEPEST = 4  # folders in the address of a page: its name, and an id
_PAGE = re.compile(r'^"?([\w/-]*)"?:\(\)=>import\("\./(pages/\w+\.js)"\)', re.MULTILINE)
_IMPORT = re.compile(r'^(?:import|export)\b[^"\n]*"(\.\.?/[^"]+\.js)"|\bfrom"(\./[^"]+\.js)"', re.MULTILINE)


class Asset(NamedTuple):
    """One file, as it is sent."""

    media_type: str
    plain: bytes
    compressed: bytes


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return every file by its path below the folder."""
    return {
        path: Asset(_MEDIA_TYPES[path.rpartition(".")[2]], content, gzip.compress(content, 9, mtime=0))
        for path, content in sorted(_sent(files("everwhen.web") / "static", ""))
    }


def _sent(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _sent(entry, f"{path}/")
        else:
            yield path, shrink(path, entry.read_bytes())


_loading = Lock()


def load_everything() -> None:
    """Load what all answers are made of, which takes a while: once, for all requests."""
    with _loading, low_priority():
        digest_of_assets()
        page_modules()


def are_loaded() -> bool:
    return bool(page_modules.cache_info().currsize)


@cache
def digest_of_assets() -> str:
    """Return the name of the folder: another one as soon as any file is another."""
    total = sha256()
    for path, asset in load_assets().items():
        total.update(f"{path}\0{len(asset.plain)}\0".encode())
        total.update(asset.plain)
    return total.hexdigest()[:16]


@cache
def first_modules() -> tuple[str, ...]:
    """Return the modules that every page needs."""
    return modules_of("main.js")


@cache
def page_modules() -> Mapping[str, str]:
    """Return the module of each page, by the first part of its address; `schedules/` is a single one of them."""
    return dict(_PAGE.findall(load_assets()["main.js"].plain.decode()))


def modules_of(path: str) -> tuple[str, ...]:
    """Return a module and those that it imports, directly or not."""
    found = [path]
    for one in found:  # it grows meanwhile
        for names in _IMPORT.findall(load_assets()[one].plain.decode()):
            target = normpath(f"{one.rpartition('/')[0]}/{names[0] or names[1]}").lstrip("/")
            if target not in found:
                found.append(target)
    return tuple(found)


def page(path: str) -> bytes | None:
    """Return the one HTML page, for an address below the root of the dashboard; it begins with a slash.

    Its references are relative. So the same page works under every prefix, also behind a proxy that removes it. There
    is one for each depth: None beyond those that an address of the dashboard has.
    """
    depth = path.count("/") - 1
    if depth > DEEPEST:
        return None
    name, _, rest = path.removeprefix("/").partition("/")
    return _page(depth, page_modules().get(f"{name}/" if rest else name))


@cache
def _page(depth: int, module: str | None) -> bytes:
    needed = dict.fromkeys((*first_modules(), *(modules_of(module) if module else ())))
    base = f"{'../' * depth}{FOLDER}/{digest_of_assets()}"
    lines = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        "<title>everwhen</title>",
        f'<link rel="icon" href="{base}/icon.svg" type="image/svg+xml">',
        f'<script src="{base}/theme.js"></script>',
        *(
            f'<link rel="stylesheet" href="{base}/{escape(path)}">'
            for path in load_assets()
            if path.endswith(".css")
        ),
        *(f'<link rel="modulepreload" href="{base}/{escape(path)}">' for path in needed),
        f'<script type="module" src="{base}/main.js"></script>',
        "</head>",
        "<body>",
        '<noscript><p class="empty">The dashboard needs JavaScript; the command line does not.</p></noscript>',
        "</body>",
        "</html>",
        "",
    )
    return "\n".join(lines).encode()
