"""The kinds of targets: what each is called, the keys that it takes, its defaults, and where its runner is.

A kind of this package is one entry of `KINDS` and one module, which `runner` names. Everything else reads this table:
the check of files and REST bodies, the JSON Schemas, OpenAPI, the rules about code, the defaults, and the runners of a
node. Kinds of other packages have no entry here; `everwhen.installed_kinds` finds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from everwhen.model.instants import HOUR, MINUTE

DEFAULT_TIMEOUT = 10 * MINUTE
DEFAULT_COMMAND = "poll"  # of a plugin
SPOKEN_BY = "spoken_by"  # the key for the caller who wrote a message, stored among its fields


class Target(NamedTuple):
    """What a slot runs: a kind, and the fields of that kind as JSON."""

    kind: str
    spec: str = "{}"

    @property
    def is_local(self) -> bool:
        """Return whether only the process that added its function can run it."""
        return self.kind == "python" and "process" in json.loads(self.spec)


ValueType = Literal[
    "anything",
    "argv",
    "duration",
    "environment",
    "flag",
    "function",
    "headers",
    "list",
    "name",
    "number",
    "object",
    "text",
    "url",
    "workflow_id",
]
"""What the value of a key may be; `config.target_fields` has the check and the JSON Schema of each."""


class TargetKey(NamedTuple):
    """One key of a target: the type of its value, or the words that it may be, and one line about it."""

    type: ValueType | tuple[str, ...]
    about: str
    default: Any = None
    is_required: bool = False


Keys = Mapping[str, TargetKey]
NO_KEYS: Keys = {}


class TargetKind(NamedTuple):
    """One kind of target.

    `run: {NAME: {…}}` holds its `keys`. Where `value` is given, `run: {NAME: value}` is one value, and `other_keys`
    are further keys of `run`. `runner` is `module:function`; it gets the `Resources` of a node and returns the target.
    """

    name: str
    about: str
    runner: str | None  # None: no worker runs it
    keys: Keys = NO_KEYS
    value: ValueType | None = None
    other_keys: Keys = NO_KEYS
    runs_code: bool = False
    timeout: int = DEFAULT_TIMEOUT
    has_group: bool = False  # runs what a section of the file names, with that group's limits
    has_defaults: bool = False  # of its own, in `model.fields`
    is_steady: bool = False  # the verdict on its keys depends on nothing else


_ALL = (
    TargetKind(
        "command",
        "A program and its arguments; never a shell.",
        "everwhen.targets.command:make_target",
        value="argv",
        other_keys={
            "cwd": TargetKey("text", "The directory that the command runs in."),
            "env": TargetKey("environment", "Variables of the command's environment."),
        },
        runs_code=True,
        timeout=HOUR,
        is_steady=True,
    ),
    TargetKind(
        "http",
        "An HTTP request.",
        "everwhen.targets.http:make_target",
        {
            "url": TargetKey("url", "Where the request goes.", is_required=True),
            "method": TargetKey(
                ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"), "The HTTP method.", "POST"
            ),
            "headers": TargetKey("headers", "Further headers."),
            "body": TargetKey("anything", "The body of the request; by default the run as JSON."),
            "redirects": TargetKey("flag", "Follow redirects.", False),
            "connect_timeout": TargetKey("duration", "How long connecting may take; 10s by default."),
        },
        is_steady=True,
    ),
    TargetKind(
        "python",
        "A function of this process.",
        "everwhen.targets.python_call:make_target",
        value="function",
        other_keys={
            "args": TargetKey("list", "Its positional arguments."),
            "kwargs": TargetKey("object", "Its keyword arguments."),
            "isolate": TargetKey("flag", "Run the function in a process of its own.", False),
        },
        runs_code=True,
    ),
    TargetKind(
        "message",
        "A message to the subscribers.",
        None,
        {
            "text": TargetKey("text", "The text of the message."),
            "structured": TargetKey("object", "The content of the message for programs."),
            "thread_id": TargetKey("text", "The conversation that it belongs to."),
            "actor": TargetKey("anything", "The sender of the message."),
        },
        is_steady=True,
    ),
    TargetKind(
        "plugin",
        "A command of a plugin.",
        "everwhen.targets.plugin:make_target",
        {
            "name": TargetKey("name", "The name of the plugin.", is_required=True),
            "command": TargetKey("text", "The command of the plugin.", DEFAULT_COMMAND),
        },
        has_group=True,
        has_defaults=True,
    ),
    TargetKind(
        "agent",
        "A run of an agent.",
        "everwhen.targets.agent:make_target",
        {
            "name": TargetKey("name", "The name of the agent.", is_required=True),
            "prompt": TargetKey("text", "The task of the agent."),
        },
        has_group=True,
        has_defaults=True,
    ),
    TargetKind(
        "workflow",
        "A run of a workflow.",
        "everwhen.targets.workflow:make_target",
        {
            "id": TargetKey("workflow_id", "The id of the workflow.", is_required=True),
            "trigger_node_id": TargetKey("text", "The trigger node of the workflow."),
        },
        has_group=True,
    ),
)

KINDS: dict[str, TargetKind] = {kind.name: kind for kind in _ALL}

# The kinds that have defaults of their own, and those that run a group.
WITH_DEFAULTS = frozenset(kind.name for kind in _ALL if kind.has_defaults)
GROUP_KINDS = tuple(kind.name for kind in _ALL if kind.has_group)
# No kind of another package can have the name of one of these.
KEYS_OF_RUN = frozenset(key for kind in _ALL for key in (kind.name, *kind.other_keys))


def default_timeout(kind: str) -> int:
    """Return how long a run of that kind may take where its schedule says nothing."""
    known = KINDS.get(kind)
    return DEFAULT_TIMEOUT if known is None else known.timeout


def run_to_json(target: Target) -> dict[str, Any]:
    """Return the keys of `run` that name this target."""
    spec = json.loads(target.spec)
    match target.kind:
        case "command":
            return (
                some_of({"command": spec.get("argv"), "cwd": spec.get("cwd"), "env": spec.get("env")}) or {}
            )
        case "python":
            other_keys = {key: spec.get(key) for key in KINDS["python"].other_keys}
            return some_of({"python": spec.get("function"), **other_keys}) or {}
        case "plugin":
            return {"plugin": {"name": spec["name"], "command": spec["command"]}}
        case "agent":
            return {"agent": some_of({"name": spec["agent"], "prompt": spec.get("prompt")})}
        case "workflow":
            number = int(spec["workflow_id"]) if spec.get("is_number") else spec["workflow_id"]
            return {"workflow": some_of({"id": number, "trigger_node_id": spec.get("trigger_node_id")})}
        case "message":
            return {"message": {key: value for key, value in spec.items() if key != SPOKEN_BY}}
        case "http":
            return {"http": {key: value for key, value in spec.items() if key != "source"}}
        case _:  # installed kinds
            return {target.kind: spec}


def some_of(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the keys that are set; None when there are none."""
    return {key: value for key, value in fields.items() if value is not None} or None


# The headers that a user may set on a request. The HTTP client sets those for framing and for the connection.
#
# A header with a length or a framing that differs from the body would start a second request inside the first
# one, on a connection that other requests may reuse.


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_THE_CLIENT = frozenset(
    """connection content-length expect http2-settings keep-alive proxy-authenticate proxy-authorization
    proxy-connection te trailer trailers transfer-encoding upgrade""".split()
)
# Headers that only describe the content, the client and the job: every other header may hold a credential.
_PLAIN = frozenset(
    """accept accept-charset accept-encoding accept-language cache-control content-encoding content-language
    content-type everwhen-attempt everwhen-job-id everwhen-slot-at idempotency-key traceparent user-agent""".split()
)


def header_fault(name: str, value: Any) -> str | None:
    """Return why a request cannot have this header, or None when it can.

    >>> header_fault("Transfer-Encoding", "chunked")
    'belongs to the connection and is set by everwhen; leave it out'
    >>> header_fault("X-Team", "blue")
    """
    if not _NAME.fullmatch(name):
        return "is not the name of a header; use letters, digits and -"
    if name.lower().replace("_", "-") in _OF_THE_CLIENT:  # many servers treat _ as -
        return "belongs to the connection and is set by everwhen; leave it out"
    if not str(value).isprintable():
        return "holds a line break or another control character, which no header may have"
    return None


def without_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to another server than the intended one.

    >>> without_credentials({"Accept": "text/plain", "X-Api-Key": "k"})
    {'Accept': 'text/plain'}
    """
    return {name: value for name, value in headers.items() if name.lower() in _PLAIN}
