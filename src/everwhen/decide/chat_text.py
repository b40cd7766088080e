"""Text of alerts as chat services get it: nothing in it is a mention, or a link that hides where it leads.

A job, an agent or a caller wrote parts of the text. What a service reads as markup is escaped where it has a way to;
else a space without width breaks it.
"""

from __future__ import annotations

import re

LONGEST_DISCORD = 2_000  # characters of one message
_BREAK = "\u200b"
_MENTION = re.compile(r"(?<![^\W_])@(?=[\w*])")  # not the sign within an address of mail
_TITLE = re.compile(r"\](?=[(\[:])")  # of a link, or of where one leads that stands elsewhere
_DISCORD_MARKUP = frozenset("\\`*_~|<>[]#@/")  # "/": of links and invitations


def break_markup(text: str) -> str:
    r"""Break mentions and links with a title, for services that have no escapes, or one each.

    >>> [part.replace("\u200b", "^") for part in break_markup("<!here> @all ada@example.com [pay](http://x)").split()]
    ['<^!here>', '@^all', 'ada@example.com', '[pay]^(http://x)']
    >>> [part.replace("\u200b", "^") for part in break_markup("_@all_ @@all [pay]: http://x").split()]
    ['_@^all_', '@@^all', '[pay]^:', 'http://x']
    """
    text = _TITLE.sub(f"]{_BREAK}", text.replace("<", f"<{_BREAK}"))
    return _MENTION.sub(f"@{_BREAK}", text)


def slack_text(text: str) -> str:
    r"""Escape what Slack reads as mentions and links, and break what services with its shape read as such.

    >>> slack_text("<!channel> & @here").replace("\u200b", "^")
    '&lt;!channel&gt; &amp; @^here'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return break_markup(text)


def discord_text(text: str, longest: int = LONGEST_DISCORD) -> str:
    r"""Escape what Discord reads as markup, mentions and links; cut between characters, not within an escape.

    >>> print(discord_text("@everyone [pay](https://evil.example)"))
    \@everyone \[pay\](https:\/\/evil.example)
    >>> print(discord_text("ab@c", 4), discord_text("abcde", 4))
    ab… abc…
    """
    pieces = [f"\\{character}" if character in _DISCORD_MARKUP else character for character in text]
    if sum(map(len, pieces)) <= longest:
        return "".join(pieces)
    shown, length = [], 1
    for piece in pieces:
        length += len(piece)
        if length > longest:
            break
        shown.append(piece)
    return "".join([*shown, "…"])
