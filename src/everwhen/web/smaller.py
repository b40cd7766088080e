"""Scripts and styles without what only their readers need: comments, indentation, spaces beside punctuation.

Nothing else is changed: names, strings, templates and regular expressions are sent as they are written, and every line
break between two statements stays, because one may end a statement. What cannot be read for certain is sent whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>//[^\n]*|/\*[\s\S]*?\*/)
    | (?P<string>"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*')
    | (?P<word>[\w$#\u0080-\uffff]+)
    | (?P<mark>[^\s\w"'])""",
    re.VERBOSE,
)
_TEMPLATE = re.compile(r"(?:\\[\s\S]|\$(?!\{)|[^`\\$])*(`|\$\{)")
_REGULAR = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_COMMENT_IN_CSS = re.compile(r"/\*[\s\S]*?\*/")
# Behind these a slash begins a regular expression; behind anything else it divides.
_BEFORE_REGULAR = frozenset("(,=:[!&|?{;+-*%~^<>")
_KEYWORDS_BEFORE_REGULAR = frozenset(
    ("return", "typeof", "case", "in", "of", "throw", "await", "yield", "else")
)
_NEEDS_NO_SPACE = frozenset("{}()[],;:?=<>&|`\"'")


class _UncertainError(Exception):
    """The text is not as this module expects a script to be."""


def shrink(path: str, content: bytes) -> bytes:
    """Return what is sent of a file. Libraries are small already, and carry the notices of their licences."""
    if path.startswith("vendor/"):
        return content
    if path.endswith(".js"):
        return shrink_script(content.decode()).encode()
    if path.endswith(".css"):
        return shrink_style(content.decode()).encode()
    return content


def shrink_script(text: str) -> str:
    """Return a script that does the same, without comments and without spaces that separate nothing."""
    try:
        return "".join(_joined(pieces_of(text)))
    except _UncertainError:
        return text


def shrink_style(text: str) -> str:
    """Return a style sheet that says the same, without comments, indentation and empty lines."""
    lines = (line.strip() for line in _COMMENT_IN_CSS.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def _joined(pieces: Iterator[str]) -> Iterator[str]:
    last, gap = "", ""
    for piece in pieces:
        if piece.isspace():
            gap = "\n" if "\n" in piece or gap == "\n" else " "
            continue
        # At a line break a statement may end; a space is needed only between two words or two signs.
        if last and gap and (gap == "\n" or not _NEEDS_NO_SPACE & {last[-1], piece[0]}):
            yield gap
        last, gap = piece, ""
        yield piece


def pieces_of(text: str) -> Iterator[str]:
    """Yield the parts of a script in their order: a comment as the white space that it stands for."""
    at, before, depth = 0, "", 0
    open_templates: list[int] = []  # the depth of braces at which each goes on
    while at < len(text):
        sign = text[at]
        is_rest = sign == "}" and open_templates[-1:] == [depth]
        if sign == "`" or is_rest:
            found = _TEMPLATE.match(text, at + 1)
            if found is None:
                raise _UncertainError
            if is_rest:
                open_templates.pop()
            if found[1] == "${":
                open_templates.append(depth)
            before = "(" if found[1] == "${" else "`"
            yield text[at : found.end()]
            at = found.end()
            continue
        found = _PIECE.match(text, at)
        if found is not None and found["mark"] == "/" and _begins_regular(before):
            found = _REGULAR.match(text, at)
        if found is None:
            raise _UncertainError
        at = found.end()
        if found.re is _PIECE and (found["space"] or found["comment"]):
            yield "\n" if "\n" in found[0] else " "
            continue
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        before = found[0]
        yield before
    if open_templates or depth:
        raise _UncertainError


def _begins_regular(before: str) -> bool:
    return before == "" or before in _BEFORE_REGULAR or before in _KEYWORDS_BEFORE_REGULAR
