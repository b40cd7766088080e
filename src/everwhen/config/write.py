"""The YAML writer: plain values as an `everwhen.yaml` that reads back as the same values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from everwhen.config.yaml_reader import core_value

_SHORT = 90
# C1 and the marks that change the text direction, which YAML's own writer treats as printable.
_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes what YAML 1.1 or 1.2 would read as another type; short collections stay on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        if _HIDDEN.search(text):
            return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')
        if "\n" in text and not text.startswith((" ", "\n")):
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="|")
        is_plain = isinstance(core_value(text), str) and text != "<<"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')

    def represent_block(self, value: Mapping[str, Any]) -> yaml.MappingNode:
        node = self.represent_mapping("tag:yaml.org,2002:map", value.items())
        node.flow_style = self._is_short(value)
        return node

    def represent_items(self, value: list[Any]) -> yaml.SequenceNode:
        node = self.represent_sequence("tag:yaml.org,2002:seq", value)
        node.flow_style = self._is_short(value)
        return node

    @staticmethod
    def _is_short(value: Any) -> bool:
        inside = value.values() if isinstance(value, Mapping) else value
        is_flat = not any(isinstance(item, Mapping | list) for item in inside)
        return (
            is_flat
            and len(value) <= 8
            and len(str(value)) <= _SHORT
            and "\n" not in "".join(map(str, inside))
        )


for _kind, _represent in (
    (str, _Dumper.represent_text),
    (dict, _Dumper.represent_block),
    (list, _Dumper.represent_items),
):
    _Dumper.add_representer(_kind, _represent)
    _Dumper.add_multi_representer(_kind, _represent)


def written(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, with an empty line between sections.

    >>> print(written({"service": {"name": "no"}}), end="")
    service: {name: 'no'}
    """
    sections = [
        yaml.dump(
            {key: value},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=False,
            width=110,
        )
        for key, value in document.items()
    ]
    # Hidden characters are always in double quotes, where they can be escaped.
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", "\n".join(sections))
