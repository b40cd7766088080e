"""Print what everwhen is made of as a CycloneDX document: its dependencies, those of its extras, and vendored modules.

Everything is read from the metadata of the packages that are installed beside it; nothing is fetched. The same
environment gives the same document. `make dist` writes it beside the wheel.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from everwhen.version import __version__

ROOT = Path(__file__).parents[1]
NAME = "everwhen"
NOT_OURS = frozenset(("dev", "docs"))  # for those who work on it
_LONGEST_LICENCE = 80  # characters; some packages have the whole text in this field


def requirements_of(found: Distribution, extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """Yield what a distribution needs on this machine, with these extras."""
    wanted = ("", *extras)
    for line in found.requires or ():
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in wanted):
            yield one


def closure_of(extras: Iterable[str] = (), name: str = NAME) -> dict[str, Distribution]:
    """Return the distributions that an installation of `name[extras]` needs, by name, without itself."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, frozenset(extras))]
    while waiting:
        step = waiting.pop()
        if step in seen:
            continue
        seen.add(step)
        one = distribution(step[0])
        found[canonicalize_name(step[0])] = one
        waiting += [(need.name, frozenset(need.extras)) for need in requirements_of(one, step[1])]
    found.pop(name)
    return found


def extras() -> list[str]:
    """Return the extras of the product."""
    given = distribution(NAME).metadata.get_all("Provides-Extra") or []
    return sorted(set(given) - NOT_OURS)


def document() -> dict[str, Any]:
    """Return the whole document."""
    needed, all_found = closure_of(), closure_of(extras())
    product = distribution(NAME)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(product, "application")},
        "components": [
            *(
                _component(one, "library", is_required=name in needed)
                for name, one in sorted(all_found.items())
            ),
            *_vendored(),
        ],
        "dependencies": [
            {"ref": _purl(one), "dependsOn": _needs(one, all_found, extras() if one is product else ())}
            for one in (product, *(one for _, one in sorted(all_found.items())))
        ],
    }


def _component(one: Distribution, kind: str, *, is_required: bool = True) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": _purl(one),
        "name": one.name,
        "version": _version(one),
        "scope": "required" if is_required else "optional",
        "licenses": _licences(one),
        "purl": _purl(one),
    }


def _purl(one: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.name)}@{_version(one)}"


def _version(one: Distribution) -> str:
    """Return the version; ours from the source, since an editable installation keeps that of the day it was made."""
    return __version__ if one.name == NAME else one.version


def _needs(one: Distribution, known: dict[str, Distribution], wanted: Iterable[str]) -> list[str]:
    names = {canonicalize_name(need.name) for need in requirements_of(one, wanted)}
    return [_purl(known[name]) for name in sorted(names) if name in known]


def _licences(one: Distribution) -> list[dict[str, Any]]:
    """Return the licence as the package states it: an expression, its classifiers, or a short text."""
    metadata = one.metadata
    if "License-Expression" in metadata:
        return [{"expression": metadata["License-Expression"]}]
    classifiers = metadata.get_all("Classifier") or []
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    text = metadata["License"].strip() if "License" in metadata else ""
    if not names and text and len(text) <= _LONGEST_LICENCE:
        names = [text]
    return [{"license": {"name": name}} for name in names]


def _vendored() -> list[dict[str, Any]]:
    """Return the modules of npm that the dashboard brings along; `tools/vendor_modules.py` lists them."""
    path = ROOT / "tools" / "vendor_modules.py"
    if not path.exists():
        return []
    spec = importlib.util.spec_from_file_location("vendor_modules", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    packages = sorted({file.package for file in module.FILES if file.folder == module.VENDOR})
    return [_npm_component(*package.rsplit("@", 1)) for package in packages]


def _npm_component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "required",
        "purl": purl,
    }


if __name__ == "__main__":
    print(json.dumps(document(), indent=2))
