"""The command line: noun, then verb. Data goes to stdout, progress and notes to stderr."""

import sys

from everwhen.version import NOT_ON_WINDOWS

if sys.platform == "win32":  # here, because the modules of the commands cannot be imported there
    raise SystemExit(f"error: {NOT_ON_WINDOWS}")
