"""HTML from Python values, safe by the way it is made: every text that isn't markup of our own is escaped.

What stands in a report was written by anyone: names of tenants and types, messages of errors. A plain `str` is always
text. Only `tag` and `joined` make `Html`.
"""

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
"""Control characters, and those that turn the direction of what follows."""

_BREAKING = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

VOID = frozenset({"meta"})


class Html(str):
    """Markup, as against text."""

    __slots__ = ()


def text(value: str) -> Html:
    """A text as markup that shows it, and does nothing else."""
    return Html(escape(_UNSEEN.sub("\ufffd", value)))


def tag(name: str, /, *children: str, **attributes: str | None) -> Html:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; an attribute that is None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{joined(children)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Parts one after the other; those that aren't markup are escaped."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts))


def raw(name: str, content: str, /, **attributes: str | None) -> Html:
    """An element whose content isn't parsed as HTML: a script or a style of our own, which can't end early."""
    assert f"</{name}" not in content.lower()
    return Html(tag(name, **attributes).removesuffix(f"</{name}>") + content + f"</{name}>")


def as_json(value: Any) -> str:
    """JSON that may stand in a script element: plain ASCII without any character that HTML knows."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_BREAKING)
