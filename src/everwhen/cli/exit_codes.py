"""The exit codes of the command line, each with its meaning; the reference shows this table."""

from __future__ import annotations

from collections.abc import Mapping

FAILED = 1
CHANGES = 3
LEFT_BY_SIGNAL = 130  # that of `everwhen.signals`, whose import would cost every command a millisecond
MEANINGS: Mapping[int, str] = {
    0: "Success.",
    FAILED: "Failure, with one sentence on standard error. Also where a check finds something: `config check` and "
    "`config diff` a mistake in the file, `db check` a slot that is not accounted for, `system status` and `status` "
    "something wrong, `notify test` a message that was not delivered, and a node whose jobs did not end in time when "
    "it was stopped.",
    2: "Wrong usage: an unknown command or option, or a value that is not valid.",
    CHANGES: "`config diff` only: the file is valid, and a reload would change something.",
    LEFT_BY_SIGNAL: "A second SIGINT or SIGTERM: the node left at once.",
}
