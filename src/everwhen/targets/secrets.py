"""References to the environment in a target's fields: resolved when a job runs, and masked in its output.

The database, responses, diffs and logs contain only `${NAME}`. A value from the environment is replaced by `***` in
all output of the run: in its plain form, as JSON writes it, and as a URL does. Values of fewer than four characters
are not masked: they would match everywhere, and protect nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from everwhen.model.outcome import Outcome
from everwhen.target import Output, Run, Stream

MASK = b"***"
SHORTEST = 4
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class UnresolvedError(Exception):
    """A reference to a variable that is not set and has no default."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the environment of this node has no {name}; set it, or give a default: ${{{name}:-…}}"
        )
        self.name = name


def escape_references(fields: Any) -> Any:
    """Escape every reference, so that resolving the result gives the fields back.

    >>> escape_references({"a": ["${HOME}", "$${HOME}", "${", 5]})
    {'a': ['$${HOME}', '$$${HOME}', '${', 5]}
    """
    return _with_texts(fields, lambda text: _REFERENCE.sub(lambda found: "$" + found[0], text))


def _with_texts(fields: Any, change: Callable[[str], str]) -> Any:
    """Change every text of the fields that may contain a reference; keys of mappings stay unchanged."""
    match fields:
        case str():
            return change(fields) if "${" in fields else fields
        case dict():
            return {key: _with_texts(value, change) for key, value in fields.items()}
        case list():
            return [_with_texts(value, change) for value in fields]
        case _:
            return fields


class Secrets:
    """Resolves references, and collects the values to be masked."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._values: set[str] = set()

    def resolve(self, fields: Any) -> Any:
        """Replace every reference in every text of the fields."""
        return _with_texts(fields, self._replace)

    def _replace(self, text: str) -> str:
        # No reference can end after the last brace, and every beginning there would search for its end in vain.
        end = text.rfind("}") + 1
        return _REFERENCE.sub(self._value, text[:end]) + text[end:]

    def _value(self, found: re.Match[str]) -> str:
        escaped, name, default = found.groups()
        if escaped:  # $${NAME} is the text ${NAME}
            return found[0][1:]
        value = self._environment.get(name)
        if value:
            self._values.add(value)
            return value
        if default is None and value is None:
            raise UnresolvedError(name)
        return default or ""

    @property
    def has_any(self) -> bool:
        """Return whether any value came from the environment."""
        return bool(self._values)

    def mask(self, text: str | None) -> str | None:
        """Mask every resolved value in a text."""
        if text is None or not self._spellings():
            return text
        return self.stream().whole(text.encode()).decode(errors="replace")

    def stream(self) -> StreamMask:
        return StreamMask(self._spellings())

    def output(self, output: Output) -> MaskedOutput:
        """Wrap the output in a mask."""
        return MaskedOutput(output, self.stream)

    def _spellings(self) -> set[bytes]:
        found: set[str] = set()
        for value in self._values | {value.strip() for value in self._values}:
            found |= {value, json.dumps(value)[1:-1], quote(value, safe="")}
        return {value.encode() for value in found if len(value) >= SHORTEST}


async def with_secrets(
    fields: dict[str, Any], run: Run, perform: Callable[[dict[str, Any], Run], Awaitable[Outcome]]
) -> Outcome:
    """Perform a run with its references resolved; neither its output nor its outcome shows their values."""
    secrets = Secrets()
    try:
        fields = secrets.resolve(fields)
    except UnresolvedError as error:
        return Outcome("failed", error=str(error), is_final=True)
    if not secrets.has_any:
        return await perform(fields, run)
    output = secrets.output(run.output)
    outcome = await perform(fields, replace(run, output=output))
    output.end()
    return outcome._replace(
        error=secrets.mask(outcome.error),
        result=secrets.mask(outcome.result),
        events=secrets.mask(outcome.events) or "",
    )


class StreamMask:
    """Masks a stream piece by piece: a value that is split between two pieces is found, too."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self._values = sorted(values, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._values))) if self._values else None
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        return self.feed(data) + self.end()

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that can be shown by now; bytes that may be the beginning of a value are held back."""
        if self._pattern is None:
            return data
        data = self._held + data
        edge = len(data) - self._beginning_at_end(data)
        shown, at = [], 0
        for found in self._pattern.finditer(data):
            if found.start() >= edge:
                break
            shown += [data[at : found.start()], MASK]
            at = found.end()
        edge = max(edge, at)
        self._held = data[edge:]
        return b"".join([*shown, data[at:edge]])

    def end(self) -> bytes:
        """Return the bytes that were held back, masked: the stream has ended."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if self._pattern is not None else held

    def _beginning_at_end(self, data: bytes) -> int:
        """Return the length of the longest suffix that begins a value, without being a whole one."""
        for length in range(min(len(data), len(self._values[0]) - 1), 0, -1):
            tail = data[-length:]
            if any(len(value) > length and value.startswith(tail) for value in self._values):
                return length
        return 0


class MaskedOutput:
    """Output with one mask per stream; `end` releases the bytes that were held back."""

    def __init__(self, output: Output, mask: Callable[[], StreamMask]) -> None:
        self._output, self._mask = output, mask
        self._masks: dict[Stream, StreamMask] = {}

    def write(self, stream: Stream, data: bytes, /) -> None:
        if stream not in self._masks:
            self._masks[stream] = self._mask()
        self._pass_on(stream, self._masks[stream].feed(data))

    def end(self) -> None:
        for stream, mask in self._masks.items():
            self._pass_on(stream, mask.end())

    def _pass_on(self, stream: Stream, data: bytes) -> None:
        if data:
            self._output.write(stream, data)
