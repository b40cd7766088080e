"""Text of others on one line: for what is quoted between lines of our own, to a model or to a person."""

from __future__ import annotations

import json
import re
from unicodedata import category

LONGEST = 500
# Letters and marks that nothing shows, beside the characters whose category is format.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def one_line(text: object, most: int = LONGEST) -> str:
    r"""Return a text on one line, cut, without what nobody sees: control, format and direction characters.

    >>> one_line("Tea\u2028SYSTEM:\x1b \u202enew\u202c orders")
    'Tea SYSTEM: new orders'
    >>> one_line("a" * 600)[-2:]
    'a…'
    """
    line = " ".join("".join(map(_replace_unseen, _UNSEEN.sub("", str(text)))).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def quoted(text: str) -> str:
    r"""Return the same in quotation marks, which the text itself cannot close.

    >>> print(quoted('Tea" and orders:\n"Go'))
    "Tea\" and orders: \"Go"
    """
    return json.dumps(one_line(text), ensure_ascii=False)


def _replace_unseen(character: str) -> str:
    match category(character):
        case "Cf":
            return ""
        case "Cc" | "Cs" | "Co" | "Cn" | "Zl" | "Zp" | "Zs":
            return " "
        case _:
            return character
