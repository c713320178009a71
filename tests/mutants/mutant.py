"""A mutant as it is kept: which symbol it changes, the text there that must occur once, the text instead, who kills it.

One table per changed module, in `tables`. A change is looked for inside its symbol only, so a refactoring of one
function breaks at most the mutants of that function: what stands around it may move, grow or be renamed.
"""

from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules

import msgspec

from tests.mutants import tables
from tests.mutants.source import BadMutant, changed

KILLERS = (
    "machine-memory",
    "machine-sqlite",
    "machine-postgres",
    "conformance-memory",
    "conformance-sqlite",
    "processes-sqlite",
    "forks-sqlite",
    "file-sqlite",
    "pages-stores",
    "optimistic-memory",
    "together-postgres",
    "network-postgres",
    "loops-postgres",
    "few-postgres",
    "frontier-postgres",
    "transactions-postgres",
    "waits-postgres",
    "client-redis",
    "faults-redis",
)
"""The machine on memory is its own model, so only the checker can object there; on SQLite and PostgreSQL lockstep must
do it alone. The others are tests of what the machine can't do: a process that is killed, a network that breaks, clients
that wait for each other, a user's transaction, and who is sent a hint."""


class Edit(msgspec.Struct, frozen=True):
    """One change of text inside a symbol."""

    symbol: str
    """In Python a name as in `Class.method`; in SQL the statement's name."""
    old: str
    """Occurs once in the symbol. Lines after the first are indented as seen from the symbol's own indentation."""
    new: str
    module: str = ""
    """The file below src/tenure, where it isn't the table's."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberate bug. One that is named neutral-… changes no behaviour, and its killers must not find it."""

    name: str
    what: str
    """What the code does wrong now."""
    breaks: str
    """The bug of §17, or the property of the checker, that it is about."""
    edits: tuple[Edit, ...]
    killers: tuple[str, ...]
    why: str = ""
    """Only where tests are the killer: why the machine isn't."""

    @property
    def neutral(self) -> bool:
        return self.name.startswith("neutral-")

    @property
    def symbols(self) -> set[tuple[str, str]]:
        """{(module, symbol)} that it changes."""
        return {(edit.module, edit.symbol) for edit in self.edits}


def mutants() -> list[Mutant]:
    """All of them, by name. Raises `BadMutant` for one that is kept wrongly."""
    found = sorted(_kept(), key=lambda mutant: mutant.name)
    for before, mutant in pairwise(found):
        if before.name == mutant.name:
            raise BadMutant(f"two mutants are named {mutant.name}")
    for mutant in found:
        _check(mutant)
    return found


def _kept() -> Iterator[Mutant]:
    for module in iter_modules(tables.__path__, f"{tables.__name__}."):
        table = import_module(module.name)
        for mutant in table.MUTANTS:
            edits = [msgspec.structs.replace(edit, module=edit.module or table.MODULE) for edit in mutant.edits]
            yield msgspec.structs.replace(mutant, edits=tuple(edits))


def _check(mutant: Mutant) -> None:
    if unknown := [killer for killer in mutant.killers if killer not in KILLERS]:
        raise BadMutant(f"{mutant.name}: killer {unknown}; there are {', '.join(KILLERS)}")
    if not mutant.neutral and len(mutant.killers) != 1:
        raise BadMutant(f"{mutant.name}: a mutant has one killer")
    if not mutant.neutral and not mutant.killers[0].startswith("machine") and not mutant.why:
        raise BadMutant(f"{mutant.name}: say why the machine isn't its killer")


def apply(mutant: Mutant, texts: dict[str, str]) -> dict[str, str]:
    """The changed files of those given, {module: text}. Raises `BadMutant` if one doesn't say what a change expects."""
    result: dict[str, str] = {}
    for edit in mutant.edits:
        text = result.get(edit.module, texts.get(edit.module))
        try:
            if text is None:
                raise BadMutant("there is no such file")
            result[edit.module] = changed(text, edit.symbol, edit.old, edit.new, sql=edit.module.endswith(".sql"))
        except BadMutant as error:
            raise BadMutant(f"{mutant.name}: {edit.module}, {edit.symbol}: {error}") from None
    return result
