"""A file read again is what it is when it is read anew: the same values in the same places, whatever was done to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.config.document import Block, Document, Items
from everwhen.config.problems import Report
from everwhen.config.reread import read_again
from everwhen.config.yaml_text import read_document

HEAD = "service: {name: x}\n# about them\nschedules:\n"
ITEMS = [
    "- id: a\n  every: 1h\n  run: {command: [x]}\n",
    "- {id: b, every: 1h}\n",
    "-   id: c\n    text: |\n      - id: no\n\n      schedules:\n    # said\n",
    '- id: d\n  name: "two\n    lines"\n\n\n',
    "-\n  id: e\n",
    "- - id: nested\n",
    "- id: f\n  list:\n  - 1\n  - {id: b, every: 1h}\n",
    "- plain\n",
]
TAIL = "budgets: {a: {fires_per_hour: 1}}\n"
WILD = st.sampled_from(
    [
        "- id: z\n",
        '- id: "z\n',
        "- [z\n",
        "  more: 1\n",
        "x: |\n",
        "x: 1\n",
        "schedules:\n",
        "---\n",
        "- &a 1\n",
        "\t\n",
        "'\n",
    ]
)


def whole(document: Document) -> Any:
    """Every value with its place."""
    return document.root, list(places(document, document.root, ()))


def places(document: Document, value: Any, path: tuple[str | int, ...]) -> Any:
    yield path, document.place(path)
    if isinstance(value, Block):
        for key, item in value.items():
            yield from places(document, item, (*path, key))
    if isinstance(value, Items):
        for number, item in enumerate(value):
            yield from places(document, item, (*path, number))


def anew(text: str) -> tuple[Document, list[str]]:
    report = Report()
    document = read_document(text, "f", report)
    return document, [str(problem) for problem in report.found]


def again(text: str, last: Document) -> tuple[Document, list[str]]:
    report = Report()
    document = read_again(text, "f", report, last)
    return document, [str(problem) for problem in report.found]


def check(texts: list[str]) -> Document:
    last, _ = anew(texts[0])
    for text in texts[1:]:
        expected, problems = anew(text)
        found, said = again(text, last)
        assert said == problems
        assert whole(found) == whole(expected)
        assert repr(found.root) == repr(expected.root)  # 1 is not true
        last = found
    return last


@st.composite
def files(draw: st.DrawFn) -> list[str]:
    """A file, and what became of it in several steps."""
    indent = draw(st.sampled_from(["", "  "]))
    items = draw(st.lists(st.sampled_from(ITEMS), min_size=3, max_size=12))
    texts: list[str] = []
    for _ in range(draw(st.integers(2, 4))):
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(items) - 1))
            what = draw(st.sampled_from(["change", "remove", "insert", "wild", "edit"]))
            if what == "remove" and len(items) > 2:
                del items[at]
            elif what == "insert":
                items.insert(at, draw(st.sampled_from(ITEMS)))
            elif what == "wild":
                items.insert(at, draw(WILD))
            elif what == "edit":
                items[at] = items[at].replace(
                    "1", draw(st.sampled_from(["2", "true", "'", "[", "1\n  y: 3"]))
                )
            else:
                items[at] = draw(st.sampled_from(ITEMS))
        lines = "".join(items).splitlines(keepends=True)
        body = "".join(f"{indent}{line}" if line.strip() else line for line in lines)
        texts.append(
            draw(st.sampled_from(["", "# more\n", "x: 5\n"]))
            + HEAD
            + body
            + draw(st.sampled_from(["", TAIL]))
        )
    return texts


@given(files())
def test_a_file_read_again_is_a_file_read_anew(texts: list[str]) -> None:
    check(texts)


def many(change: dict[int, str] | None = None) -> str:
    lines = [f"- {{id: s{n}, every: 1h}}\n" for n in range(50)]
    for number, line in (change or {}).items():
        lines[number] = line
    return HEAD + "".join(lines)


def test_what_did_not_change_is_shared() -> None:
    last, _ = anew(many())
    found, _ = again(many({7: "- id: other\n  every: 2h\n", 40: ""}), last)
    assert found.root["schedules"][7] == {"id": "other", "every": "2h"}
    assert found.root["schedules"][8] is last.root["schedules"][8]
    assert found.root["schedules"][45] is last.root["schedules"][46]
    assert found.place(("schedules", 8, "every")).line == 3 + 8 + 2
    further, _ = again(many(), found)
    assert further.root["schedules"][45] is last.root["schedules"][45]
    assert whole(further) == whole(last)


@pytest.mark.parametrize(
    "change",
    [
        {7: '- {id: "open\n'},
        {7: "- {id: open\n"},
        {7: "- id: x\n  text: |\n"},
        {7: "other:\n"},
        {7: "...\n---\n"},
        {7: "- &a {id: x}\n", 9: "- *a\n"},
        {7: "- {id: '\ue000everwhen 0'}\n"},
        {7: "- {id: x}\r\n"},
        {7: "- {id: x, id: y}\n"},
        {49: ""},
        {0: ""},
        dict.fromkeys(range(50), ""),
    ],
)
def test_what_reaches_beyond_its_lines_is_read_whole(change: dict[int, str]) -> None:
    check([many(), many(change), many()])
