"""Rules about the source that no linter checks: names, arguments with names, and fields that are read by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src"
FILES = sorted(SOURCES.rglob("*.py"))
MOST_POSITIONAL = 5
# Metaphors that a reader would have to learn first.
METAPHORS = frozenset(
    (
        "house room door doorway desk office crew ground premises outpost workshop backstage glance glimpse doze deed "
        "weave farewell told"
    ).split()
)
# Ordinary words that say nothing as the name of something.
VAGUE = frozenset(
    "says takes words elsewhere front moments looking carrier carry beside standing spell happened".split()
)
# The words of the second list that are right: a table of types, and the fields of a cron expression.
ALLOWED = {"_WORDS", "words"}
# A docstring that begins with one of these does not say what its function does.
NO_VERBS = frozenset(
    (
        "the a an what whether all where how why one it those in by of this these that same whoever who only would "
        "ours until as with when from every each for nothing some none its at after before within inside so no if"
    ).split()
)
IS_NONE = re.compile(r"(?<!here )\b(?:is|are|was|were) no (?!longer|more)\w+")
# Programs report, send and receive.
SPEECH = re.compile(r"\b(?:tells?|told|hears?|heard|speaks?|spoken|greets?|whoever)\b", re.IGNORECASE)
# Numbers of rules and names of documents that only the authors have.
RULE = re.compile(r"\((?:(?!B\d)[A-Z]{1,3}\d{1,2}|(?:SEMANTICS|CONTRACT|ALERTS|AGENTS) \w+)(?:, [A-Z]\d+)*\)")
OTHERS = re.compile("pipelit|syris|herdctl|ductile", re.IGNORECASE)
NAMES_OTHERS = (
    "src/everwhen/compat/",
    "src/everwhen/cli/main.py",  # the command `import`
    "src/everwhen/cli/import_command.py",
    "tests/compat/",
    "tests/rows/",
    "tests/cli/test_import.py",
    "tests/story/test_sample_of_the_contract.py",
    "tests/test_source_rules.py",
)
# Functions of other packages that take any number of equal arguments.
VARIADIC = {"pack", "assemble"}
# Django looks for `Command`, `Text` is rich's name, and `Target` is both what is declared and what runs it.
SHARED = {"Command", "Target", "Text"}
# Modules that write parts of dates themselves: everything else takes `timetable.instant_text`.
DATE_WRITERS = {
    "everwhen/timetable/instant_text.py",
    "everwhen/timetable/jitter.py",  # what is hashed
    "everwhen/timetable/describe.py",  # readings of a clock change
    "everwhen/decide/outlook.py",  # the time of day beside a window, and the weekday
    "everwhen/views/system.py",  # a weekday
    "everwhen/mcp/results.py",  # the sentence that is read to a person, with the name of the zone
    "everwhen/cli/node_log.py",  # when a line was written
    "everwhen/compat/importers/apscheduler_triggers.py",  # a time of day
}
DATE_PART = re.compile(r"%[aAbBdHIjmMpSyY]")
# What a tuple with named fields is called; the fields of any other sequence have no names to read them by.
RECORDS = {
    "self",
    "row",
    "state",
    "job",
    "event",
    "revision",
    "start",
    "new",
    "before",
    "after",
    "decision",
    "token",
}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in FILES:
        yield str(path.relative_to(SOURCES)), ast.parse(path.read_text())


@pytest.fixture(scope="module")
def trees() -> list[tuple[str, ast.Module]]:
    return list(_trees())


def calls_with_too_many(tree: ast.Module, variadic: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) not in variadic:
            given = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
            if len(given) > MOST_POSITIONAL:
                yield node


def positions(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Yield what reads fields by position: a slice of a record or of its field names, or an index into itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        is_record = _name(node.value) in RECORDS or _name(node.value) == "_fields"
        if isinstance(node.slice, ast.Slice):
            bounds = [node.slice.lower, node.slice.upper]
            if is_record and any(_is_number(bound) for bound in bounds):
                yield node
        elif _name(node.value) == "self" and _is_number(node.slice):
            yield node


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def test_no_call_has_more_than_five_positional_arguments(trees: list[tuple[str, ast.Module]]) -> None:
    variadic = VARIADIC | {
        node.name
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.args.vararg is not None
    }
    found = [f"{name}:{call.lineno}" for name, tree in trees for call in calls_with_too_many(tree, variadic)]
    assert found == []


def test_no_field_is_read_by_its_position(trees: list[tuple[str, ast.Module]]) -> None:
    found = [f"{name}:{one.lineno} {ast.unparse(one)}" for name, tree in trees for one in positions(tree)]
    assert found == []


def test_no_two_classes_share_a_name(trees: list[tuple[str, ast.Module]]) -> None:
    """A shape in `views` has the name of what it shows, and a body of the API that of what it declares."""
    places: dict[str, list[str]] = {}
    for name, tree in trees:
        if not name.startswith(("everwhen/views/", "everwhen/api/")):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(name)
    doubled = {name for name, found in places.items() if len(found) > 1}
    assert doubled <= SHARED, doubled


def names_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every name that the module gives: of classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def parts_of(name: str) -> set[str]:
    """Return the words of a name, in the singular where that only takes the s away."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


def test_no_name_is_a_metaphor(trees: list[tuple[str, ast.Module]]) -> None:
    found = [
        f"{path}:{line} {name}"
        for path, tree in trees
        for name, line in [*names_in(tree), (path.removeprefix("everwhen/"), 0)]
        if parts_of(name) & (METAPHORS | VAGUE) and name not in ALLOWED
    ]
    assert found == []


def test_no_name_in_the_tests_is_a_metaphor() -> None:
    files = [path for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__)]
    found = [
        f"{path}:{line} {name}"
        for path in files
        for name, line in [*names_in(ast.parse(path.read_text())), (path.stem, 0)]
        if parts_of(name) & METAPHORS
    ]
    assert found == []


def test_other_schedulers_are_named_in_compat_its_tests_and_its_documentation_only() -> None:
    """But for the literal of a manifest, the names of importers, and the sample and the example of the contract."""
    files = [path.relative_to(SOURCES.parent) for folder in (SOURCES, TESTS) for path in folder.rglob("*.py")]
    found = [
        f"{path}:{number} {line.strip()}"
        for path in files
        if not str(path).startswith(NAMES_OTHERS)
        for number, line in enumerate((SOURCES.parent / path).read_text().splitlines(), 1)
        if OTHERS.search(line.replace("ductile.plugin", "").replace("pipelit-client", ""))
        if "compat" not in line
    ]
    assert found == []


def test_a_message_says_that_something_is_not_one_and_never_that_it_is_none(
    trees: list[tuple[str, ast.Module]],
) -> None:
    found = [
        f"{path}:{node.lineno} {match[0]}"
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (match := IS_NONE.search(node.value))
    ]
    assert found == []


def test_the_docstring_of_a_function_begins_with_a_verb(trees: list[tuple[str, ast.Module]]) -> None:
    """But those of calls: they are the documentation of the API."""
    found = [
        f"{path}:{node.lineno} {text.splitlines()[0]}"
        for path, tree in trees
        if not path.startswith("everwhen/api/routes/")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node))
        if text.split()[0].strip("`,:;.").lower() in NO_VERBS
    ]
    assert found == []


def test_no_program_tells_hears_or_speaks_in_a_docstring(trees: list[tuple[str, ast.Module]]) -> None:
    """But in a doctest, whose names are those of its example."""
    found = [
        f"{path}:{getattr(node, 'lineno', 1)} {line.strip()}"
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        for line in without_doctests(ast.get_docstring(node) or "")
        if SPEECH.search(line)
    ]
    assert found == []


def without_doctests(text: str) -> list[str]:
    """Return the lines of a docstring before its first doctest."""
    return text.partition(">>>")[0].splitlines()


def test_an_instant_is_formatted_in_one_place(trees: list[tuple[str, ast.Module]]) -> None:
    """Otherwise one surface would show it without its zone, or in another form than that which is read."""
    writers = {
        path
        for path, tree in trees
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.FormattedValue)
            and DATE_PART.search(ast.unparse(node.format_spec or ast.Constant("")))
        )
        or (isinstance(node, ast.Attribute) and node.attr == "strftime")
    }
    assert writers == DATE_WRITERS


def test_no_message_names_a_file_of_this_repository(trees: list[tuple[str, ast.Module]]) -> None:
    """The reader of a message has the package, and none of the folders beside it; docstrings are for others."""
    found = [
        f"{name}: {text}"
        for name, tree in trees
        for text in _messages_in(tree)
        if re.search(r"(?<![\w/\"])(?:docs|tests|examples|benchmarks)/\w|\b[A-Z]+\.md\b", text)
    ]
    assert found == []


def _messages_in(tree: ast.Module) -> Iterator[str]:
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(node) for node in statements}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_no_line_names_a_rule_of_a_document_that_is_not_here() -> None:
    found = [
        f"{path}:{number} {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if RULE.search(line)
    ]
    assert found == []


def test_a_free_port_stays_reserved_from_the_moment_a_test_chooses_it() -> None:
    """Another process takes a port that was chosen and released: a test would then talk to that process's server."""
    choosing = re.compile(r"\.bind\(\(.*, 0\)\)|def free_port|port=int\(")
    own = TESTS / "servers" / "ports.py"
    found = [
        f"{path}:{number} {line.strip()}"
        for path in sorted(TESTS.rglob("*.py"))
        if path not in (own, Path(__file__))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if choosing.search(line)
    ]
    assert found == []


SHORTEST_WAIT = (
    30  # seconds for something that comes: a busy machine keeps a process waiting for many of them
)
CLOCKS = {"monotonic", "perf_counter", "time"}


def short_waits(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield waits that a busy machine exceeds: asserted ones, and those for a process. Below a second it is a pause."""
    asserted = {id(one) for node in ast.walk(tree) if isinstance(node, ast.Assert) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, limits = _name(node.func), [one.value for one in node.keywords if one.arg == "timeout"]
        is_asserted = name in ("wait", "acquire") and id(node) in asserted
        if is_asserted or ast.unparse(node.func) == "pytest.mark.timeout":
            limits += node.args[:1]
        elif name not in ("communicate", "run", "check_call", "check_output"):
            continue
        if any(_is_number_between(limit, 1, SHORTEST_WAIT) for limit in limits):
            yield node


def timed_assertions(tree: ast.Module) -> Iterator[ast.Assert]:
    """Yield assertions that something took less than a number of seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            is_span = any(
                isinstance(one, ast.BinOp)
                and isinstance(one.op, ast.Sub)
                and any(isinstance(part, ast.Call) and _name(part.func) in CLOCKS for part in ast.walk(one))
                for one in ast.walk(node.test)
            )
            if is_span and any(isinstance(operator, ast.Lt | ast.LtE) for operator in node.test.ops):
                yield node


def _is_number_between(node: ast.expr, least: float, beyond: float) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and least <= node.value < beyond
    )


def test_no_test_fails_because_a_machine_is_busy() -> None:
    """A bound on real time is replaced by what it stands for: by a wait that would be longer than a test may take."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text())
        nodes: list[ast.Call | ast.Assert] = [*short_waits(tree), *timed_assertions(tree)]
        found += [f"{path.relative_to(TESTS)}:{node.lineno} {ast.unparse(node)}" for node in nodes]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "assert a.wait(10)",
        "assert a.wait(timeout=2.0) == 0",
        "subprocess.run(a, timeout=20)",
        "pytest.mark.timeout(20)",
    ],
)
def test_a_wait_that_a_busy_machine_exceeds_is_found(text: str) -> None:
    assert list(short_waits(ast.parse(text)))
    assert not list(short_waits(ast.parse("assert a.wait(60)\nassert not a.wait(0.1)\na.wait(10)")))


def test_an_assertion_about_a_duration_is_found() -> None:
    assert list(timed_assertions(ast.parse("assert time.monotonic() - began < 10")))
    assert not list(timed_assertions(ast.parse("assert time.monotonic() < deadline\nassert seconds >= 0.3")))


@pytest.mark.parametrize("text", ["f(1, 2, 3, 4, 5, 6)", "a.b(1, 2, 3, 4, 5, 6, *c)"])
def test_six_positional_arguments_are_found(text: str) -> None:
    assert list(calls_with_too_many(ast.parse(text), VARIADIC))
    assert not list(calls_with_too_many(ast.parse("f(1, 2, 3, 4, 5, *rest, x=6)"), VARIADIC))


@pytest.mark.parametrize("text", ["State._make((*self[:17], 1))", "self[40]", "row[9:15]", "T._fields[1:]"])
def test_a_read_by_position_is_found(text: str) -> None:
    assert list(positions(ast.parse(text)))
    assert not list(positions(ast.parse("row[:size], names[:5], self[key], text[1:]")))
