"""What the demo shows."""

import io
import re
from collections.abc import Mapping

import pytest
from rich.console import Console

from tenure.demo.board import Board
from tenure.demo.view import LiveView, View, drawn, view_for
from tenure.domain.event import Event
from tenure.domain.states import EventKind

WEIGHTS = {"acme": 3, "cory": 1}


def board() -> Board:
    """One job waits, one runs, one succeeded; all are acme's."""
    made = Board()
    for job, kinds in {"a": "enqueued", "b": "enqueued claimed", "c": "enqueued claimed succeeded"}.items():
        for kind in kinds.split():
            made.add(Event(tenant="acme", kind=EventKind(kind), at=0, job_id=job, worker="north", job_type="t"))
    return made


def table(fates: Mapping[str, str]) -> list[list[str]]:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(drawn(board(), fates, WEIGHTS))
    return [line.split() for line in console.export_text().splitlines()]


def test_the_tables_say_how_everything_stands() -> None:
    lines = table({})
    assert ["acme", "3", "1", "1", "1", "north", "works", "1", "1"] in lines
    assert ["cory", "1", "0", "0", "0"] in lines
    assert ["0", "jobs", "recovered"] in lines


def test_the_tables_say_what_became_of_a_worker() -> None:
    assert ["acme", "3", "1", "1", "1", "north", "killed", "1", "1"] in table({"north": "killed"})


def test_plain_lines_have_their_time_and_what_stands_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    view = View(WEIGHTS, stream)
    view.say("it begins")
    view.show(board(), {})
    monkeypatch.setattr(view, "interval_seconds", 0)
    view.show(board(), {})
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r" *\d+\.\d s  it begins", first)
    assert "acme: 1 waiting, 1 running, 1 succeeded  cory: 0 waiting" in second


def test_what_a_stream_cant_say_becomes_a_question_mark() -> None:
    body = io.BytesIO()
    stream = io.TextIOWrapper(body, encoding="ascii")
    View(WEIGHTS, stream).line("lost 0 · settled twice 0")
    assert body.getvalue() == b"lost 0 ? settled twice 0\n"


def test_without_a_terminal_lines_are_plain() -> None:
    assert type(view_for(WEIGHTS, plain=False)) is View
    assert type(view_for(WEIGHTS, plain=True)) is View


def test_on_a_terminal_a_line_keeps_its_colour_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    view = LiveView(WEIGHTS, Console(file=stream, width=100, color_system="standard", force_interactive=True))
    monkeypatch.setattr(view, "interval_seconds", 0)
    with view:
        view.show(board(), {})
        view.say("[red] is no markup", "good")
    said = stream.getvalue()
    assert "[red] is no markup" in said
    after = said[said.index("is no markup") :]
    assert "acme" in after
    assert "\x1b[32macme" not in after
