"""The words of schedules for programs that show them: keys with the values that they take, and reasons.

All of it is derived from the tables of `model` (keys, kinds of targets, reasons), so a page that is built from it knows
what the service knows.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_args

from everwhen.model.fields import GENERAL, Field
from everwhen.model.kinds import Either, Record
from everwhen.model.reasons import BRIEF, BRIEF_AHEAD
from everwhen.model.scalars import Word
from everwhen.model.target_kinds import KINDS, TargetKey, TargetKind
from everwhen.views.shape import Object, View, field


class WordTerm(View):
    """A word that a key may be."""

    word: str
    about: str | None = field(about="What it means; null where it says that itself.")


class KeyTerm(View):
    """A key of a schedule, or of an object within it, such as `dst.gap` and `run.http.method`."""

    key: str
    about: str
    default: str | None = field(about="The default in words; null: there is none.")
    words: list[WordTerm] = field(about="The words that it may be; empty: others than words.")


class ReasonTerm(View):
    """Why a slot, a job or a circuit breaker is as it is, in few words; `why/` has the sentence."""

    reason: str
    text: str
    text_ahead: str = field(about="The same of a slot to come.")


class Terms(View):
    """What the keys and the reasons of schedules are called."""

    keys: list[KeyTerm]
    reasons: list[ReasonTerm]


@cache
def terms_to_json() -> Object:
    """Return all terms, in the order of the tables."""
    reasons = [
        ReasonTerm.made(reason=reason, text=text, text_ahead=BRIEF_AHEAD.get(reason, text))
        for reason, text in BRIEF.items()
    ]
    keys = [term for name, row in GENERAL.items() for term in _terms(name, row)]
    targets = [term for kind in KINDS.values() for term in _terms_of_target(kind)]
    return Terms.made(keys=[*keys, *targets], reasons=reasons)


def _terms(name: str, row: Field) -> list[Object]:
    kind = row.kind.last if isinstance(row.kind, Either) else row.kind
    inner = kind.keys if isinstance(kind, Record) else {}
    return [
        _term(name, row.about, row.kind, _default_text(row), get_args(row.answer_type)),
        *(_term(f"{name}.{key}", part.about, part.kind, _text(part.default)) for key, part in inner.items()),
    ]


def _terms_of_target(kind: TargetKind) -> list[Object]:
    keys = {f"run.{kind.name}.{name}": key for name, key in kind.keys.items()}
    keys |= {f"run.{name}": key for name, key in kind.other_keys.items()}
    return [
        KeyTerm.made(key=f"run.{kind.name}", about=kind.about, default=None, words=[]),
        *(
            KeyTerm.made(
                key=name,
                about=key.about,
                default=_text(key.default),
                words=[WordTerm.made(word=word, about=None) for word in _choices(key)],
            )
            for name, key in keys.items()
        ),
    ]


def _choices(key: TargetKey) -> tuple[str, ...]:
    return key.type if isinstance(key.type, tuple) else ()


def _term(name: str, about: str, kind: Any, default: str | None, shown: tuple[str, ...] = ()) -> Object:
    """Return a key; `shown` are the words without those that are other names of them."""
    words, meanings = (shown or kind.fields, kind.meanings) if isinstance(kind, Word) else ((), {})
    terms = [WordTerm.made(word=word, about=meanings.get(word)) for word in words]
    return KeyTerm.made(key=name, about=about, default=default, words=terms)


def _default_text(row: Field) -> str | None:
    if row.otherwise:
        return row.otherwise.replace("`", "")
    return _text(row.default)


def _text(default: Any) -> str | None:
    return default if default is None or isinstance(default, str) else json.dumps(default)
