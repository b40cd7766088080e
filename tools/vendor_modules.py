"""Fetches the dashboard's libraries from npm and writes them to `src/everwhen/web/static/vendor/`, ready for a browser.

A browser resolves no bare name such as "preact" without an import map, and an import map would be an inline script,
which the dashboard's policy refuses. So the names are replaced by paths. Nothing else of the files is changed.
Run it to take another version: change the number below, run it, look at the difference, and run the tests.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).parents[1] / "src" / "everwhen" / "web" / "static" / "vendor"
AXE = Path(__file__).parents[1] / "tests" / "browser" / "vendor"
NAMES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(r'\bfrom\s*"([^."][^"]*)"')
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")


class File(NamedTuple):
    package: str
    path: str
    name: str
    added: str = ""
    folder: Path = VENDOR


FILES = (
    File("preact@11.2.0", "dist/preact.mjs", "preact.js"),
    File("preact@11.2.0", "hooks/dist/hooks.mjs", "hooks.js"),
    File("preact@11.2.0", "LICENSE", "preact.LICENSE.txt"),
    File("htm@3.1.1", "dist/htm.module.js", "htm.js"),
    File("htm@3.1.1", "LICENSE", "htm.LICENSE.txt"),
    File("@preact/signals-core@1.14.5", "dist/signals-core.mjs", "signals-core.js"),
    File("@preact/signals@2.11.4", "dist/signals.mjs", "signals.js"),
    File("@preact/signals@2.11.4", "LICENSE", "signals.LICENSE.txt"),
    File("uplot@1.6.32", "dist/uPlot.iife.min.js", "uplot.js", added="\nexport default uPlot;\n"),
    File("uplot@1.6.32", "dist/uPlot.min.css", "uplot.css"),
    File("uplot@1.6.32", "LICENSE", "uplot.LICENSE.txt"),
    File("axe-core@4.14.0", "axe.min.js", "axe.min.js", folder=AXE),
    File("axe-core@4.14.0", "LICENSE", "axe.LICENSE.txt", folder=AXE),
)


def main() -> int:
    for package in dict.fromkeys(file.package for file in FILES):
        with tempfile.TemporaryDirectory() as folder:
            fetched = _fetch(package, Path(folder))
            for file in FILES:
                if file.package == package:
                    _write(file, (fetched / file.path).read_text())
    return 0


def _fetch(package: str, folder: Path) -> Path:
    packed = subprocess.run(
        ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


def _write(file: File, text: str) -> None:
    if file.name.endswith(".js") and file.folder == VENDOR:
        text = _IMPORT.sub(lambda found: f'from"{NAMES[found[1]]}"', _SOURCE_MAP.sub("\n", text))
    file.folder.mkdir(parents=True, exist_ok=True)
    (file.folder / file.name).write_text(text + file.added)


if __name__ == "__main__":
    sys.exit(main())
