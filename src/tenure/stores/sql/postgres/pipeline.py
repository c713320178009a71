"""Statements sent without waiting (libpq's pipeline): only reading an answer waits, for all that was sent before it.

What a call is certain to ask can be asked ahead. That saves waiting, not work: what is called most goes by one
statement (`enqueue_direct.py`, `settle_direct.py`).
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, cast

from tenure.stores.sql.postgres.place import Place
from tenure.stores.sql.postgres.runners import Answer, Runner
from tenure.stores.sql.rows import Row
from tenure.stores.sql.statements import Statement


class Pipeline:
    """Runs the named statements on one connection, whoever's it is."""

    def __init__(self, runner: Runner, place: Place) -> None:
        self._runner = runner
        self._place = place
        self._sql = place.sql
        self._schema = place.schema
        self._ahead: dict[tuple[str, Any], Any] = {}

    def clear(self) -> None:
        """Answers that nobody came for are of no use in another transaction."""
        self._ahead.clear()

    # One set of values

    def send(self, name: str, *values: Any) -> Any:
        """Sends a statement; the cursor has its answer when asked."""
        return self._runner.run(self._sql[name].text, values)

    def ahead(self, name: str, *values: Any) -> None:
        """Asks now what `ask` will ask later."""
        self._ahead[name, values] = self.send(name, *values)

    def ask(self, name: str, *values: Any) -> list[Row]:
        """The rows that a statement finds."""
        cursor = self._ahead.pop((name, values), None) or self.send(name, *values)
        return cast(list[Row], cursor.fetchall())

    def ask_part(self, name: str, parts: frozenset[str], *values: Any) -> list[Row]:
        """The rows that a statement finds of which only some of the optional parts are run."""
        return self.send_part(name, parts, *values).fetchall()

    def send_part(self, name: str, parts: frozenset[str], *values: Any) -> Answer:
        """Sends a statement with only some of its optional parts."""
        return self._runner.run(self._place.part(name, parts), values)

    # Many rows of values

    def send_many(self, name: str, given: Sequence[Row], *more: Any) -> Any:
        """Sends a statement for many rows at once, which must not be none."""
        statement = self._sql[name]
        return self._runner.run(statement.text, [*self._columns(statement, given), *more])

    def ahead_many(self, name: str, given: Sequence[Row], *more: Any) -> None:
        """Asks now what `ask_many` will ask later."""
        if given:
            self._ahead[name, tuple(given)] = self.send_many(name, given, *more)

    def ask_many(self, name: str, given: Sequence[Row], *more: Any) -> list[Row]:
        """The rows that a statement finds for many keys."""
        if not given:
            return []
        ahead = self._ahead.pop((name, tuple(given)), None) if self._ahead else None
        return cast(list[Row], (ahead or self.send_many(name, given, *more)).fetchall())

    def exactly(self, name: str, given: Sequence[Row]) -> None:
        """Sends a statement that must change a row for each that is given; the transaction fails if it doesn't."""
        if given:
            statement = self._sql[name]
            self._runner.run(statement.exact, [*self._columns(statement, given), len(given)])

    # Others

    def stream(self, sql: str, values: Sequence[Any]) -> Iterator[Row]:
        """The rows of a statement made on the spot, its values marked by `?`."""
        return iter(self.run(self.written(sql), values).fetchall())

    def run(self, text: str, values: Sequence[Any]) -> Answer:
        """Sends a statement as it is written."""
        return self._runner.run(text, values)

    def written(self, sql: str) -> str:
        """A statement made on the spot, as the server wants it."""
        numbers = count(1)
        text = "".join(f"${next(numbers)}" if mark == "?" else mark for mark in sql)
        return text.replace("tenure.", f"{self._schema}.")

    def number(self, *what: str) -> int:
        """What an advisory lock is known by."""
        digest = hashlib.blake2b("\0".join((self._schema, *what)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, signed=True)

    def column(self, kind: str, values: Sequence[Any]) -> Any:
        """A column of many rows, as the driver wants it."""
        return self._runner.column(kind, values)

    def _columns(self, statement: Statement, given: Sequence[Row]) -> list[Any]:
        columns = zip(*given, strict=True)
        return [self._runner.column(kind, column) for kind, column in zip(statement.types, columns, strict=True)]
