"""SVG text that looks like the dashboard: its colours, light and dark by the reader's preference, and its letters.

The colours are those of the dashboard's design tokens. A picture is a card of its own, so that it can be read on a page
of any colour. It needs no script, no font and no other file.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

# name: (light, dark)
COLOURS = {
    "surface": ("#ffffff", "#15181f"),
    "inset": ("#f0f2f5", "#1b1f28"),
    "line": ("#e2e5ea", "#252a34"),
    "line-2": ("#cdd2da", "#394150"),
    "hatch": ("rgb(23 26 33 / 9%)", "rgb(255 255 255 / 8%)"),
    "shade": ("rgb(23 26 33 / 5%)", "rgb(255 255 255 / 4%)"),
    "text": ("#171a21", "#e9ebef"),
    "text-2": ("#454d5b", "#b4bbc7"),
    "text-3": ("#626b7a", "#929baa"),
    "accent": ("#5046d4", "#9b93ff"),
    "accent-text": ("#463cc4", "#aca5ff"),
    "ok": ("#12866f", "#35b596"),
    "ok-text": ("#0a6553", "#62d3b8"),
    "ok-soft": ("#e2f3ee", "#11302a"),
    "fail": ("#bd2a10", "#ff6a4a"),
    "fail-text": ("#9c220b", "#ff9a82"),
    "fail-soft": ("#fdeae5", "#3c1a14"),
    "run": ("#1c6dd0", "#559ff7"),
    "run-text": ("#1558ab", "#85bcff"),
    "run-soft": ("#e5effc", "#14294a"),
    "hold": ("#a88200", "#e8c14a"),
    "hold-text": ("#6b5200", "#f0cf6a"),
    "hold-soft": ("#f8f0d3", "#322910"),
    "miss": ("#ad2d8b", "#e375c4"),
    "miss-text": ("#91216f", "#f09cd8"),
    "miss-soft": ("#f9e7f4", "#381a31"),
    "skip": ("#77808f", "#8992a2"),
    "skip-text": ("#4a5261", "#b4bbc7"),
    "skip-soft": ("#eceef2", "#232833"),
    "on-mark": ("#ffffff", "#0e1015"),
}
FONT = 'ui-sans-serif, -apple-system, "Segoe UI", Inter, Roboto, "Liberation Sans", Arial, sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'


def document(
    *, width: int, height: int, title: str, description: str, style: str, body: Iterable[str]
) -> str:
    """Return a whole picture. `title` and `description` are for readers who do not see it."""
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in COLOURS.items()) for side in (0, 1))
    size, card = f'width="{width}" height="{height}"', f'width="{width - 1}" height="{height - 1}"'
    labels = 'role="img" aria-labelledby="title description"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} {labels}>',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            "<style>",
            f":root{{color-scheme:light dark;{light}}}",
            f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}",
            f"text{{font:12px {FONT};fill:var(--text-2);font-variant-numeric:tabular-nums}}",
            f".mono{{font-family:{MONO}}}.strong{{font-weight:600;fill:var(--text)}}.small{{font-size:11px}}",
            ".quiet{fill:var(--text-3)}.middle{text-anchor:middle}.end{text-anchor:end}",
            style,
            "</style>",
            "<defs>",
            *(_hatching(name) for name in ("hatch", "hold", "fail", "miss")),
            "</defs>",
            f'<rect x=".5" y=".5" {card} rx="10" fill="var(--surface)" stroke="var(--line)"/>',
            *body,
            "</svg>\n",
        )
    )


def _hatching(name: str) -> str:
    opacity = "" if name == "hatch" else ' opacity=".45"'
    return (
        f'<pattern id="{name}ing" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0 0v6" stroke="var(--{name})" stroke-width="3"{opacity}/></pattern>'
    )


def text(x: float, y: float, content: str, classes: str = "", colour: str | None = None) -> str:
    painted = f' style="fill:var(--{colour})"' if colour else ""
    named = f' class="{classes}"' if classes else ""
    return f'<text x="{_number(x)}" y="{_number(y)}"{named}{painted}>{escape(content)}</text>'


def rectangle(
    x: float, y: float, width: float, height: float, *, fill: str, radius: float = 0, more: str = ""
) -> str:
    rounded = f' rx="{_number(radius)}"' if radius else ""
    return (
        f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"{rounded} '
        f'fill="{_paint(fill)}"{more}/>'
    )


def path(
    drawn: str, *, stroke: str, width: float = 1.5, dash: str = "", fill: str = "none", cap: str = "round"
) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="{drawn}" fill="{_paint(fill)}" stroke="{_paint(stroke)}" stroke-width="{_number(width)}" '
        f'stroke-linecap="{cap}" stroke-linejoin="round"{dashed}/>'
    )


def circle(x: float, y: float, radius: float, *, fill: str, stroke: str = "none") -> str:
    return (
        f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}" fill="{_paint(fill)}" '
        f'stroke="{_paint(stroke)}" stroke-width="1.5"/>'
    )


def point(x: float, y: float) -> str:
    """Return a point of a path."""
    return f"{_number(x)} {_number(y)}"


def _paint(colour: str) -> str:
    if colour == "none":
        return colour
    return f"url(#{colour})" if colour.endswith("ing") else f"var(--{colour})"


def _number(value: float) -> str:
    """Return a number as short as a tenth of a unit allows.

    >>> _number(12.0), _number(12.34), _number(-0.01)
    ('12', '12.3', '0')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short
