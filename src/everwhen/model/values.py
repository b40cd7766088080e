"""Values of the configuration: durations, zones, windows, names and so on, each read by its own parser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from everwhen.errors import ConfigError, shown
from everwhen.model.instants import SECOND
from everwhen.model.kinds import Anything, Either, Headers, Key, ListOf, MapOf, Record
from everwhen.model.meanings import FOLD, GAP
from everwhen.model.payload import LARGEST_PAYLOAD
from everwhen.model.scalars import AnyText, CheckedValue, Flag, Number, Only, Parsed, Schema, Text, Word
from everwhen.timetable.civil_time import Fold, Gap, zone
from everwhen.timetable.interval import LONGEST, TOO_LONG, parse_seconds
from everwhen.timetable.trigger import parse_instant
from everwhen.timetable.windows import parse_dates, parse_weekdays, parse_window

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

MOST_PAYLOAD = LARGEST_PAYLOAD
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KiB|MiB|GiB)?")
_UNITS = {None: 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
_UTC = zone("UTC")
_NO_HOST = re.compile(r"""[\s"'<>\\^`{|}]""")


def parse_size(value: Any) -> int:
    """Parse a number of bytes: `64KiB`, `16MiB`, or a plain number.

    >>> parse_size("64KiB")
    65536
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise ConfigError(f'"{shown(value)}" is not a size; write it like 64KiB or 16MiB')
    return int(found[1]) << _UNITS[found[2]]


def _zone_name(value: Any) -> None:
    if value != "local":
        zone(value)


def _instant(value: Any) -> None:
    parse_instant(value, _UTC)


def parse_duration(value: Any) -> int:
    """Parse a duration such as `5m`, or a whole number of seconds, into microseconds."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return parse_seconds(value) * SECOND
    if value > LONGEST:
        raise ConfigError(TOO_LONG)
    return value * SECOND


def _workflow_id(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ConfigError(f'"{shown(value)}" must be a number or text')


def parse_network(value: Any) -> IPv4Network | IPv6Network:
    """Parse a network, or a single address; refuse the network of all addresses.

    >>> parse_network("10.0.0.0/8"), parse_network("::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    from ipaddress import ip_network

    try:
        network = ip_network(value if isinstance(value, str) else "")
    except ValueError:
        raise ConfigError(
            f'"{shown(value)}" is not a network; write it like 10.0.0.0/8 or 127.0.0.1'
        ) from None
    if network.prefixlen == 0:
        raise ConfigError(f'"{shown(value)}" contains all addresses; name the networks of your proxies')
    return network


def _quiet_days(value: Any) -> None:
    parse_weekdays(value, "days")


def _date(value: Any) -> None:
    parse_dates([value])


A_DURATION: Schema = {"type": "string", "examples": ["30s", "5m", "1h30m"]}
_DURATION_OR_SECONDS: Schema = {"anyOf": [A_DURATION, {"type": "integer", "minimum": 1, "maximum": LONGEST}]}
DURATION = Parsed(parse_duration, _DURATION_OR_SECONDS, python="Duration | int")
DURATION_OR_NONE = DURATION._replace(also=(0, "0", "0s"))
GRACE = DURATION._replace(also=("auto",))
ZONE = Parsed(
    _zone_name, {"type": "string", "examples": ["UTC", "Europe/Berlin", "local"]}, python="TimeZone"
)
INSTANT = Parsed(_instant, {"type": "string", "examples": ["2026-12-24T18:00:00+01:00"]}, python="Instant")
_A_WEEKDAY: Schema = {"type": ["string", "integer"], "examples": ["saturday", "sat", 6]}
WEEKDAYS = Parsed(
    parse_weekdays,
    {"anyOf": [{"type": "array", "items": _A_WEEKDAY}, _A_WEEKDAY]},
    python="str | int | Sequence[str | int]",
)
QUIET_DAYS = Parsed(_quiet_days, WEEKDAYS.shape)
DATE = Parsed(_date)
WINDOW = Parsed(parse_window, {"type": "string", "examples": ["08:00-18:00"]})
NETWORK = Parsed(parse_network, {"type": "string", "examples": ["10.0.0.0/8", "127.0.0.1"]})
SIZE = Parsed(parse_size, {"type": ["string", "integer"], "examples": ["64KiB"]})


class Url(Text):
    """A URL of a web server; one with a reference is read by the worker, when it knows the value."""

    __slots__ = ()

    def check(self, node: CheckedValue) -> None:
        Text.check(self, node)
        value = node.value
        if isinstance(value, str) and "${" not in value and (fault := url_fault(value)) is not None:
            node.complain(
                f"{self.message}, such as {self.example}: {fault}"
            )  # the URL may contain a password


def url_fault(value: str) -> str | None:
    """Return why no request can be sent to this URL; a text that is not a URL at all is refused by its pattern."""
    if not value.startswith(("http://", "https://")):
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        return "its host is not a valid IPv6 address in brackets"
    try:
        port = parts.port
    except ValueError:
        return "its port must be a number from 1 to 65535"
    if not host:
        return "it names no host"
    if _NO_HOST.search(host):
        return "its host contains a character that no name has"
    return "its port must be a number from 1 to 65535" if port == 0 else None


URL = Url(
    "https://host/path",
    r"(https?://[^\s/]+[^\x00-\x1f\x7f]*|[^\x00-\x1f\x7f]*\$\{[^\x00-\x1f\x7f]*)",
    "must be a URL",
)
# Paths are appended to it, so it has neither a query nor a fragment; and people see it, so it has no password.
PUBLIC_URL = Url(
    "https://everwhen.example.com",
    r"https?://[^\s/?#@]+(/[^\s?#]*)?",
    "must be a URL without a query and without a password",
)


class MailServer(Text):
    """A URL of a mail server; one with a reference is read when a mail is sent."""

    __slots__ = ()

    def check(self, node: CheckedValue) -> None:
        Text.check(self, node)
        value = node.value
        if isinstance(value, str) and value.strip() and _MAIL_SERVER.fullmatch(value) is None:
            node.complain(
                "must be a URL such as smtp://host:587 or smtps://host"
            )  # it may contain a password


_MAIL_SERVER = re.compile(r"smtps?://[^\s/]+/?|.*\$\{.*")
MAIL_SERVER = MailServer("smtp://host:587")
MAIL_ADDRESS = Text("ops@example.com", r".*@.*|.*\$\{.*", "must be an address")
PERCENT_OR_DURATION = Text("30s or 5%", python="Duration")
NAME_TEXT = Text(
    "nightly-backup", r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", "must be a name of letters, digits, - and _"
)
SCALAR = Either(((str, AnyText()), (bool, Flag()), ((int, float), Anything())), Text())
WORKFLOW_ID = Parsed(_workflow_id, {"type": ["string", "integer"]})
ARGV = ListOf(SCALAR, "must be a list: the program, then its arguments", 1)
HEADERS = Headers(SCALAR)
ENVIRONMENT = MapOf(SCALAR, has_names=False, message="must be a mapping of variables")


BREAKER_RULE = Record(
    {
        "threshold": Key(Number(1), "The number of failures in a row that opens the breaker.", 3),
        "reset_after": Key(DURATION, "How long the breaker stays open before one run is tried.", "30m"),
    }
)
BREAKER = Either(((bool, Only(False)),), BREAKER_RULE)
DST = Record(
    {
        "gap": Key(Word(get_args(Gap), meanings=GAP), "What happens to a time that the clock jumps over."),
        "fold": Key(Word(get_args(Fold), meanings=FOLD), "Which one is used when a time occurs twice."),
    }
)


# Queues that belong to one program: `queue@name`. Only processes that declare the same name take jobs from
# them.
#
# The names of other queues contain no @, so a worker that serves every queue recognises these by it and skips
# them.


BOUND = "@"


def bound_queue(queue: str, name: str) -> str:
    """Return the name of a queue that belongs to a program.

    >>> bound_queue("default", "shop")
    'default@shop'
    """
    return f"{queue}{BOUND}{name}"


def program_of(queue: str) -> str | None:
    """Return the program that a queue belongs to.

    >>> program_of("default@shop"), program_of("default")
    ('shop', None)
    """
    return queue.partition(BOUND)[2] or None


def plain_queue(queue: str) -> str:
    """Return the name of the queue as it was declared.

    >>> plain_queue("default@shop"), plain_queue("default")
    ('default', 'default')
    """
    return queue.partition(BOUND)[0]
