"""The mutants fit the code, and a change of one function concerns only the mutants of that function."""

import pytest

from tests.mutants.mutant import Mutant, apply, mutants
from tests.mutants.run import sources, unfit
from tests.mutants.source import BadMutant, changed, symbols

HOT = (
    ("stores/sql/hot.py", "_lease"),
    ("stores/sql/hot.py", "succeed"),
    ("stores/sql/postgres/enqueue_direct.py", "_arrive_alike"),
    ("stores/sql/sqlite/tables.py", "SqliteTables._lease"),
    ("domain/model/claim.py", "Walk._pick"),
    ("domain/transitions.py", "_release"),
)
"""Functions with mutants, in modules that have others."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return sources()


def touching(module: str) -> list[Mutant]:
    return [mutant for mutant in mutants() if any(edit.module == module for edit in mutant.edits)]


def broken(texts: dict[str, str], module: str, text: str) -> set[str]:
    """The mutants that no longer fit when a module reads so."""
    return set(unfit(touching(module), {**texts, module: text}))


def lines_of(text: str, symbol: str) -> tuple[int, int]:
    return next((first - 1, last) for name, first, last in symbols(text) if name == symbol)


def test_all_mutants_fit_the_code(texts: dict[str, str]) -> None:
    assert not unfit(mutants(), texts)


@pytest.mark.parametrize(("module", "symbol"), HOT)
def test_a_refactoring_breaks_the_mutants_of_its_function_only(texts: dict[str, str], module: str, symbol: str) -> None:
    text = texts[module]
    lines = text.splitlines(keepends=True)
    first, last = lines_of(text, symbol)
    name = symbol.rpartition(".")[2]
    own = {mutant.name for mutant in touching(module) if (module, symbol) in mutant.symbols}
    others = {mutant.name for mutant in touching(module)} - own
    assert own
    assert others

    renamed = text.replace(f"def {name}(", f"def {name}_anew(")
    assert broken(texts, module, renamed) == own
    gone = "".join(lines[:first] + lines[last:])
    assert broken(texts, module, gone) == own
    around = "".join([*lines[:first], "\n", "# Something new\n", "\n", *lines[first:last], "\n", *lines[last:]])
    assert not broken(texts, module, around)


def test_a_function_that_moves_in_its_module_keeps_its_mutants(texts: dict[str, str]) -> None:
    module, symbol = HOT[0]
    lines = texts[module].splitlines(keepends=True)
    first, last = lines_of(texts[module], symbol)
    assert not broken(texts, module, "".join([*lines[:first], *lines[last:], "\n\n", *lines[first:last]]))


@pytest.mark.parametrize(
    ("symbol", "old", "why"),
    [
        ("two", "1", "0 times"),
        ("one", "return", "2 times"),
        ("three", "1", "symbol is there 0 times"),
        ("two", "return 2", "no Python"),
    ],
)
def test_a_change_that_does_not_fit_says_why(symbol: str, old: str, why: str) -> None:
    text = "def one():\n    return 1 or (lambda: 'return')\n\n\ndef two():\n    return 2\n"
    with pytest.raises(BadMutant, match=why):
        changed(text, symbol, old, "return (")


def test_lines_are_indented_as_seen_from_the_symbol() -> None:
    text = "class A:\n    def f(self):\n        if self:\n            return 1\n        return 2\n"
    wanted = text.replace("            return 1\n        return 2", "            return 2")
    assert changed(text, "A.f", "return 1\n    return 2", "return 2") == wanted


def test_a_statement_is_a_symbol() -> None:
    text = "-- About.\n\n-- name: one\nSELECT 1\n\n-- name: two\nSELECT 1\n"
    assert changed(text, "two", "SELECT 1", "SELECT 2", sql=True) == text.removesuffix("1\n") + "2\n"


def test_a_mutant_names_itself_when_it_does_not_fit(texts: dict[str, str]) -> None:
    mutant = mutants()[0]
    with pytest.raises(BadMutant, match=mutant.name):
        apply(mutant, {})
