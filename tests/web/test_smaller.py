"""What is sent of a script does what the written one does: only comments and spaces that separate nothing are gone."""

from __future__ import annotations

from importlib.resources import files

import pytest

from everwhen.web.assets import load_assets
from everwhen.web.smaller import pieces_of, shrink_script, shrink_style

OWN = [path for path in load_assets() if path.endswith(".js") and not path.startswith("vendor/")]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("const a = 1; // one\nlet b;", "const a=1;\nlet b;"),
        ("a /* in\nbetween */ b", "a\nb"),
        ("return /* nothing */ a", "return a"),
        ('url = "http://here" // there', 'url="http://here"'),
        ("text = 'it\\'s // text'", "text='it\\'s // text'"),
        ("a = b / c; d = e / f; // g", "a=b / c;d=e / f;"),
        ("const r = /[/*]\\/\\/ /g, s = 1", "const r=/[/*]\\/\\/ /g,s=1"),
        ("return /  a/.test(b) // c", "return /  a/.test(b)"),
        ("(a) / b / (c) // d", "(a)/ b /(c)"),
        ("a + +b - -c", "a + +b - -c"),
        ("x = `a  // b ${c ? `  /* ${ d } */` : { e: 1 }.e}  f`", None),
        ("html`<p>  // text</p>` // gone", "html`<p>  // text</p>`"),
        ("const f = () => {\n  return a\n    + b;\n};", "const f=()=>{\nreturn a\n+ b;\n};"),
        ("`\\`${a}\\${`  // b", "`\\`${a}\\${`"),
        ("if (a in b) c = d ?? e", "if(a in b)c=d??e"),
    ],
)
def test_comments_and_idle_spaces_are_not_sent(written: str, sent: str | None) -> None:
    nested = "x=`a  // b ${c?`  /* ${d} */`:{e:1}.e}  f`"
    assert shrink_script(written) == (sent if sent is not None else nested)


@pytest.mark.parametrize("broken", ["a = `never ended", "a = 'never ended", "a = {", "}", "`${a", "a = /b"])
def test_what_cannot_be_read_for_certain_is_sent_whole(broken: str) -> None:
    assert shrink_script(f"// kept\n{broken}") == f"// kept\n{broken}"


@pytest.mark.parametrize("path", OWN)
def test_every_script_keeps_its_pieces_and_its_line_breaks(path: str) -> None:
    written = files("everwhen.web").joinpath("static", path).read_text("utf-8")
    sent = load_assets()[path].plain.decode()
    assert [one for one in pieces_of(sent) if not one.isspace()] == [
        one for one in pieces_of(written) if not one.isspace()
    ]
    assert len(sent) < len(written) and shrink_script(sent) == sent


def test_a_style_sheet_loses_comments_and_indentation_only() -> None:
    written = "/* a\n b */\n.a {\n  color: red; /* why */\n}\n\n.b > .c { margin: 0 1px; }\n"
    assert shrink_style(written) == ".a {\ncolor: red;\n}\n.b > .c { margin: 0 1px; }"
