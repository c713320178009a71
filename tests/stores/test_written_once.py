"""What records and events consist of is written in the domain alone: no store lists fields, or names a kind of event.

Read off the syntax tree of every store module, and off every statement. Exceptions are named, with their reasons.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.domain.event import Event
from tenure.domain.job import Job, Spec
from tenure.domain.states import EventKind, State

STORES = Path(__file__).parents[2] / "src/tenure/stores"
MODULES = sorted(STORES.rglob("*.py"))
STATEMENTS = sorted(STORES.rglob("statements/*.sql"))

KINDS = {kind.value for kind in EventKind}
RECORDS = {struct.__name__: set(struct.__struct_fields__) for struct in (Event, Job, Spec)}
LIST = 5
"""So many fields of one struct beside each other are a list of them."""

COLUMNS = "columns of a table beside the record, each with a name of its own in SQL"
IDENTITY = "fields: seq, tenant, id, queue, job_type, enqueued_at"
NEW = "fields: tenant, id, queue, job_type, priority, expires, key, payload"
KNOWN = {
    ("records.py job_of", "a Job made by hand"): "the decoder itself",
    ("sql/hot.py _lease", "fields: tenant, queue, job_type, group, lease, grace"): "what jobs of one form share",
    ("sql/postgres/enqueue_direct.py _row", NEW): COLUMNS,
    ("sql/postgres/health.py", "the kind claimed"): "a table",
    ("sql/postgres/tables.py PostgresTables._first_claimed", "the kind claimed"): "a table",
    ("sql/rows.py job_row", IDENTITY): COLUMNS,
    ("sql/rows.py slot_row", "fields: tenant, job_id, lease_seq, queue, group, deadline"): "a Slot's",
    ("sql/scan.py", "fields: seq, state, tenant, id, finished_at, result_ttl, unique_for"): "what a result is found by",
    ("sql/scan.py", "fields: tenant, id, queue, job_type, enqueued_at"): COLUMNS,
    ("sql/verify.py _columns", IDENTITY): COLUMNS,
}
"""(module and symbol, what is found there) → why it may stand there."""


def parse(file: Path) -> Iterator[tuple[str, ast.AST]]:
    """(symbol, node) of everything in a module but its docstrings."""
    yield from _inside(ast.parse(file.read_text(encoding="utf-8")), "")


def _inside(parent: ast.AST, path: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        inner = path
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{path}.{node.name}".lstrip(".")
        yield inner, node
        yield from _inside(node, inner)


def kinds(node: ast.AST) -> Iterator[str]:
    """Texts that name a kind of event, or are a piece of one as JSON."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value in KINDS:
            yield f"the kind {node.value}"
        yield from (f'the text "{field}":' for field in json_fields(node.value))


def json_fields(text: str) -> list[str]:
    return [field for field in re.findall(r'"(\w+)":', text) if field in RECORDS["Event"]]


def lists(node: ast.AST) -> Iterator[str]:
    """A record made by hand, and fields of one beside each other."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RECORDS:
        yield f"a {node.func.id} made by hand"
    if isinstance(node, ast.Call) and _encodes_fields(node):
        yield "an array encoded by hand"
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        beside: dict[str, list[str]] = {}
        for one in node.elts:
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                beside.setdefault(one.value.id, []).append(one.attr)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                beside.setdefault("", []).append(one.value)
        for names in beside.values():
            if any(len(fields.intersection(names)) >= LIST for fields in RECORDS.values()):
                yield f"fields: {', '.join(names)}"


def _encodes_fields(call: ast.Call) -> bool:
    long = any(isinstance(given, ast.Tuple) and len(given.elts) >= LIST for given in call.args)
    return long and ast.unparse(call.func).split(".")[-1] in ("encode", "pack", "packb")


def found(file: Path) -> set[tuple[str, str]]:
    module = str(file.relative_to(STORES))
    return {
        (f"{module} {symbol}".strip(), what) for symbol, node in parse(file) for what in (*kinds(node), *lists(node))
    }


def test_no_module_writes_records_or_events_by_hand() -> None:
    assert MODULES
    assert {one for file in MODULES for one in found(file)} == set(KNOWN)


@pytest.mark.parametrize("file", STATEMENTS, ids=lambda file: str(file.relative_to(STORES)))
def test_no_statement_puts_an_event_together(file: Path) -> None:
    """A kind may stand there that is a state too: states are columns."""
    literals = re.findall(r"'((?:[^']|'')*)'", re.sub(r"--.*", "", file.read_text(encoding="utf-8")))
    assert [text for text in literals if json_fields(text) or text in KINDS - {state.value for state in State}] == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("""f'{{"tenant":"{tenant}","kind":"claimed","at":{now},'""", 'the text "tenant":'),
        ("kind = 'claimed'", "the kind claimed"),
        ("Spec(job.tenant, id, SEQ)", "a Spec made by hand"),
        ("encode((2, now, 1, 1, token))", "an array encoded by hand"),
        (
            "(a.version, a.updated_at, a.attempt, a.lease_seq, a.token)",
            "fields: version, updated_at, attempt, lease_seq, token",
        ),
    ],
)
def test_what_was_there_once_is_found(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"def written():\n    value = {text.removeprefix('kind = ')}\n")
    assert what in [said for _, node in parse(file) for said in (*kinds(node), *lists(node))]
