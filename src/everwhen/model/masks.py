"""Masks in the place of secrets: what answers, diffs and the shown configuration say instead of a literal secret.

A secret is known by the name that it stands under (a key, a header, an option, a parameter of a URL) or by its own
shape (Bearer …, a password in a URL, the prefixes of well-known services). A reference to the environment is no
secret and stays. What only points to a secret, such as `token_file`, stays as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

MASK = "***"

_CHOICES = "authorization cookie token secret passw passphrase credential apikey api-key access-key private-key".split()
_WORDS = {"pass", "pwd"}  # also alone
_SEGMENTS = {"auth", "pat", "key", "sig", "signature", "session"}  # within a longer name
_POINTERS = {"file", "path", "dir", "folder", "env", "url", "uri", "endpoint", "name", "id", "type"}
_SEPARATORS = re.compile(r"[-_. ]|(?<=[a-z])(?=[A-Z])")

_REFERENCE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SCHEME = re.compile(r"^(?:bearer|basic|token)\s+", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?<=://)([^/?#\s:@]*):([^/?#\s]*)@")
_IN_QUERY = re.compile(r"([?&;])([^=&#;?\s]+)=([^&#;\s]+)")  # no "?" in a name: linear
_ASSIGNED = re.compile(r"^(-{0,2}[A-Za-z][\w.-]*)(=|:\s*)(\S.*)$", re.DOTALL)
_ACCOUNT_OPTIONS = frozenset(("-u", "-U", "--user", "--proxy-user"))  # of curl, with name:password
_WITH_ACCOUNT = ("-u", "-U", "--user=", "--proxy-user=")
_ACCOUNT = re.compile(r"((?<!\S)(?:-[uU]\s*+|--(?:proxy-)?user(?:=|\s++))['\"]?)([^\s'\"]++)")
_SHAPES = re.compile(
    r"(\b(?:bearer|basic)\s+|\bgh[pousr]_|\bgithub_pat_|\bglpat-|\bxox[abprs]-|\bsk-|\bew_"
    r"|hooks\.slack\.com/services/|/api/webhooks/\d+/)([^\s\"'&?#]{12,})",
    re.IGNORECASE,
)


def masked(value: Any, key: str = "") -> Any:
    """Return the fields with every probable secret masked, unless it is a reference to the environment.

    >>> masked({"headers": {"Authorization": "Bearer abc", "Accept": "text/plain"}})
    {'headers': {'Authorization': '***', 'Accept': 'text/plain'}}
    >>> masked(["curl", "-H", "X-Api-Key: abc", "--token", "abc", "https://ada:abc@example.com/?sig=abc"])
    ['curl', '-H', 'X-Api-Key: ***', '--token', '***', 'https://ada:***@example.com/?sig=***']
    >>> masked(["curl", "-u", "ada:abc", "-Ubob:abc"]), masked("curl -uada:abc --proxy-user 'bob:abc' https://example.com/")
    (['curl', '-u', 'ada:***', '-Ubob:***'], "curl -uada:*** --proxy-user 'bob:***' https://example.com/")
    >>> masked(["docker", "run", "-u", "app:app"]), masked("date -u +%H:%M")
    (['docker', 'run', '-u', 'app:app'], 'date -u +%H:%M')
    """
    if isinstance(value, dict):
        return {name: masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name) for name, item in named_items(value, key)]
    if not isinstance(value, str):
        return value
    if key in _ACCOUNT_OPTIONS:
        return _masked_account(value)
    return _masked_secret(value) if names_secret(key) else _masked_text(value)


def without_secrets(fields: dict[str, Any], path: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the fields without what would be masked, and the paths of what is left out.

    >>> without_secrets({"run": {"http": {"url": "https://a.example", "headers": {"X-Api-Key": "abc", "X-Team": "a"}}}})
    ({'run': {'http': {'url': 'https://a.example', 'headers': {'X-Team': 'a'}}}}, ['run.http.headers.X-Api-Key'])
    >>> without_secrets({"run": {"command": ["deploy", "--token", "abc"]}})
    ({'run': {}}, ['run.command'])
    """
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in fields.items():
        if masked(value, name) == value:
            kept[name] = value
        elif isinstance(value, dict):
            kept[name], inside = without_secrets(value, f"{path}{name}.")
            left_out += inside
        else:
            left_out.append(f"{path}{name}")
    return kept, left_out


def named_items(items: list[Any] | tuple[Any, ...], key: str) -> Iterator[tuple[str, Any]]:
    """Yield each item with the name that describes it: the list's, or that of the option before it."""
    has_accounts = any(isinstance(item, str) and _makes_requests(item) for item in items)
    for before, item in pairwise(["", *items]):
        is_option = isinstance(before, str) and before.startswith("-") and "=" not in before
        if has_accounts and (before in _ACCOUNT_OPTIONS or str(item).startswith(_WITH_ACCOUNT)):
            yield "-u", item
        else:
            yield (before if is_option and names_secret(before) else key), item


def names_secret(key: str) -> bool:
    """Return whether a value with this name is probably a secret.

    >>> [names_secret(name) for name in ("X-API-Key", "dbPassword", "PGPASSWORD", "SSH_KEY", "X-Auth", "pwd")]
    [True, True, True, True, True, True]
    >>> [names_secret(name) for name in ("key", "author", "token_file", "monkey", "signature")]
    [False, False, False, False, False]
    """
    parts = [part.lower() for part in _SEPARATORS.split(key) if part]
    if not parts or parts[-1] in _POINTERS:
        return False
    joined = "-".join(parts)
    if any(word in joined for word in _CHOICES) or not _WORDS.isdisjoint(parts):
        return True
    return len(parts) > 1 and not _SEGMENTS.isdisjoint(parts)


def _masked_secret(value: str) -> str:
    """Keep references to the environment; mask their defaults and all other text."""
    scheme = _SCHEME.match(value)
    rest = _replaced_references("", value[scheme.end() :] if scheme else value)
    return MASK if rest.strip() or "${" not in value else _without_default(value)


def _without_default(value: str) -> str:
    return _replaced_references(lambda found: f"${{{found[1]}:-{MASK}}}" if found[2] else found[0], value)


def _replaced_references(replacement: str | Callable[[re.Match[str]], str], value: str) -> str:
    # Behind the last brace nothing can end, and each beginning would look for its end in vain.
    end = value.rfind("}") + 1
    return _REFERENCE.sub(replacement, value[:end]) + value[end:]


def _masked_text(value: str) -> str:
    assigned = _ASSIGNED.match(value)
    if assigned is not None and names_secret(assigned[1]) and not assigned[3].startswith("//"):
        return f"{assigned[1]}{assigned[2]}{_masked_secret(assigned[3])}"
    value = _SHAPES.sub(lambda found: f"{found[1]}{_kept_reference(found[2])}", value)
    if _makes_requests(value):
        begin = max(value.find("curl"), 0)  # `date -u +%H:%M; curl …`: options before it mean something else
        rest = _ACCOUNT.sub(lambda found: f"{found[1]}{_masked_account(found[2])}", value[begin:])
        value = value[:begin] + rest
    if "://" not in value:
        return value
    value = _AUTHORITY.sub(lambda found: f"{found[1]}:{_masked_secret(found[2])}@", value)
    return _IN_QUERY.sub(_masked_parameter, value)


def _makes_requests(value: str) -> bool:
    """Return whether the text is about a request; in other commands `-u app:app` is a user and its group."""
    return "curl" in value or "://" in value


def _masked_account(value: str) -> str:
    name, _, secret = value.partition(":")
    return f"{name}:{_masked_secret(secret)}" if secret and not secret.startswith("//") else value


def _kept_reference(value: str) -> str:
    return _without_default(value) if value.startswith("${") else MASK


def _masked_parameter(found: re.Match[str]) -> str:
    is_secret = names_secret(found[2]) or found[2].lower() in _SEGMENTS
    return f"{found[1]}{found[2]}={_masked_secret(found[3])}" if is_secret else found[0]
