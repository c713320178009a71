"""Changes text inside one symbol: a function, method, class or assignment of a Python module, or a statement of SQL."""

import ast
import re
from collections.abc import Iterator

_STATEMENT = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class BadMutant(Exception):
    """A mutant that can't be used: its table is wrong, or the code isn't what it expects."""


def changed(text: str, symbol: str, old: str, new: str, *, sql: bool = False) -> str:
    """The file with one change. Raises `BadMutant` unless the symbol is there once, and the old text once in it."""
    start, end, indent = (_statement if sql else _definition)(text, symbol)
    inside = text[start:end]
    old, new = (_indented(part, indent) for part in (old, new))
    if (count := inside.count(old)) != 1:
        raise BadMutant(f"the old text occurs {count} times, not once")
    result = text[:start] + inside.replace(old, new) + text[end:]
    if not sql:
        _compile(result)
    return result


def symbols(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, last line) of every symbol of a Python module, an outer one before those inside it."""
    return _symbols(ast.parse(text), "")


def _symbols(parent: ast.AST, path: str, *, local: bool = False) -> Iterator[tuple[str, int, int]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _SCOPES):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield path + node.name, first, node.end_lineno or first
            yield from _symbols(node, f"{path}{node.name}.", local=not isinstance(node, ast.ClassDef))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in [] if local else node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield path + target.id, node.lineno, node.end_lineno or node.lineno
        else:
            yield from _symbols(node, path, local=local)


def _definition(text: str, symbol: str) -> tuple[int, int, str]:
    """Where a Python symbol begins and ends, and its indentation."""
    found = [(first, last) for name, first, last in symbols(text) if name == symbol]
    if len(found) != 1:
        raise BadMutant(f"the symbol is there {len(found)} times, not once")
    ((first, last),) = found
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: first - 1]))
    line = lines[first - 1]
    return start, start + sum(map(len, lines[first - 1 : last])), line[: len(line) - len(line.lstrip())]


def _statement(text: str, symbol: str) -> tuple[int, int, str]:
    """Where a named statement begins and ends; statements aren't indented."""
    begins = list(_STATEMENT.finditer(text))
    found = [number for number, begin in enumerate(begins) if begin[1] == symbol]
    if len(found) != 1:
        raise BadMutant(f"the statement is there {len(found)} times, not once")
    (number,) = found
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    return begins[number].start(), ends[number], ""


def _indented(text: str, indent: str) -> str:
    return re.sub(r"\n(?=[^\n])", "\n" + indent, text)


def _compile(text: str) -> None:
    try:
        compile(text, "<mutant>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise BadMutant(f"the changed module is no Python: {error}") from None
