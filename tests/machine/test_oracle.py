"""The oracle is its own: the memory store, which lockstep compares others with, shares no code of theirs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tenure.stores
from tenure.stores.memory import MemoryStore
from tenure.stores.memory_tables import MemoryTables
from tenure.testing.clock import ManualClock

STORES = Path(tenure.stores.__file__).parent
ORACLE = ("memory", "memory_tables")
SHARED = ("base", "clock", "hints", "ways")
"""What every store is made of besides: the protocol's verbs, the host's clock, hints, and the counting of ways."""
OTHERS = sorted(
    module.relative_to(STORES).as_posix().removesuffix(".py").replace("/", ".")
    for module in STORES.rglob("*.py")
    if module.stem not in {*ORACLE, *SHARED, "__init__"} and module.name != "opening.py"
)
"""Modules of stores that are compared with the oracle. `opening` is the table of URL schemes: it names every store."""


def imported(name: str) -> Iterator[str]:
    """What a module of `tenure.stores` imports, also where only a type checker does."""
    file = STORES / f"{name.replace('.', '/')}.py"
    for node in ast.walk(ast.parse((file if file.exists() else file.with_suffix("") / "__init__.py").read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_stores(name: str) -> set[str]:
    """Which modules of `tenure.stores` a module imports."""
    prefix = "tenure.stores."
    found = {one.removeprefix(prefix) for one in imported(name) if one.startswith(prefix)}
    return {one for one in found if (STORES / f"{one.replace('.', '/')}.py").exists()}


def reached(*names: str) -> set[str]:
    """The modules of `tenure.stores` that these import, and those that those do."""
    found: set[str] = set()
    todo = set(names)
    while todo:
        found |= todo
        todo = set().union(*map(of_stores, todo)) - found
    return found


def test_the_oracle_is_made_of_the_model_and_dictionaries() -> None:
    assert reached(*ORACLE) == {*ORACLE, *SHARED}
    packages = {name.partition(".")[0] for module in (*ORACLE, *SHARED) for name in imported(module)}
    standard = {"abc", "bisect", "collections", "contextlib", "copy", "enum", "threading", "time", "typing"}
    assert packages <= {"tenure", "msgspec", "asyncio", *standard}


def test_no_other_store_is_made_of_the_oracle() -> None:
    assert {"sql.hot", "sql.tables", "sql.postgres.enqueue_direct"} <= set(OTHERS)
    assert not {name: shared for name in OTHERS if (shared := of_stores(name) & set(ORACLE))}


def test_the_oracle_keeps_everything_in_plain_collections() -> None:
    """Not in tables that another store brings, under whatever name."""
    tables = MemoryStore(ManualClock())._tables
    assert type(tables) is MemoryTables
    kept = {type(one).__module__ for one in (*vars(tables).values(), *vars(tables._index).values())}
    assert kept - {"builtins", "collections"} == {"tenure.domain.model.tables", "tenure.stores.memory_tables"}
