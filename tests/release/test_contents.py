"""What the wheel and the source archive hold: every file of the package, the licences, and nothing of the workshop."""

from __future__ import annotations

import tarfile
import zipfile
from email import message_from_string
from importlib.metadata import Distribution
from pathlib import Path

import yaml

from everwhen.version import __version__
from tests.release.building import ROOT
from tools.sbom import NOT_OURS, closure_of, document, extras

INFO = f"everwhen-{__version__}.dist-info"
LICENCE_ENDINGS = (".LICENSE.txt",)


def package_files() -> set[str]:
    """The files of the package in the work tree, less what Python makes of them."""
    found = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(ROOT / "src")) for path in found}


def licences() -> set[str]:
    return {"LICENSE", *(f"src/{name}" for name in package_files() if name.endswith(LICENCE_ENDINGS))}


def test_the_wheel_holds_the_package_its_licences_and_nothing_else(dist: Path) -> None:
    (path,) = dist.glob("*.whl")
    assert path.name == f"everwhen-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    about = {name for name in names if name.startswith(INFO)}
    assert names - about == package_files() and "everwhen/py.typed" in names
    assert about == {f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")} | {
        f"{INFO}/licenses/{name}" for name in licences()
    }


def test_the_source_archive_holds_the_package_and_what_describes_it(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    beside = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "PKG-INFO",
        "pyproject.toml",
        ".gitignore",
    }
    assert names == {f"src/{name}" for name in package_files()} | beside


def test_the_metadata_name_version_licence_python_and_every_extra(dist: Path) -> None:
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        metadata = message_from_string(wheel.read(f"{INFO}/METADATA").decode())
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("License-File") or []) == licences()
    assert set(metadata.get_all("Provides-Extra") or []) == {*extras(), *NOT_OURS}
    assert not any("Windows" in line for line in metadata.get_all("Classifier") or [])


def test_every_folder_of_vendored_files_has_licences_beside_them() -> None:
    folders = [folder for part in ("src", "tests") for folder in (ROOT / part).rglob("vendor")]
    assert [str(folder) for folder in folders if not list(folder.glob("*.LICENSE.txt"))] == []


def test_the_sbom_lists_every_dependency_with_its_licence() -> None:
    found = document()
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["purl"] == f"pkg:pypi/everwhen@{__version__}"
    python = [one for one in found["components"] if one["purl"].startswith("pkg:pypi/")]
    assert {one["purl"] for one in python if one["scope"] == "required"} == purls(closure_of())
    assert {one["purl"] for one in python} == purls(closure_of(extras()))
    assert [one["name"] for one in python if not one["licenses"]] == []
    # Every reference leads to a component.
    known = {one["bom-ref"] for one in (found["metadata"]["component"], *found["components"])}
    edges = found["dependencies"]
    assert {one["ref"] for one in edges} | {need for one in edges for need in one["dependsOn"]} <= known
    assert "pytest" not in {one["name"] for one in python}


def purls(found: dict[str, Distribution]) -> set[str]:
    return {f"pkg:pypi/{name}@{one.version}" for name, one in found.items()}


def test_the_forms_for_issues_and_the_pages_of_a_release_are_there() -> None:
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[bf]*.yml"):
        fields = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} == set(fields)
        asked = [one for one in fields["body"] if one["type"] != "markdown"]
        assert all(one["id"] and one["attributes"]["label"] for one in asked)
    pages = ("SECURITY.md", "RELEASING.md", ".github/pull_request_template.md", "docs/how-to/upgrade.md")
    assert [name for name in pages if not (ROOT / name).read_text().strip()] == []
