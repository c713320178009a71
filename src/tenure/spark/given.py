"""Options as Spark gives them, and how the text of each is understood."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms
from tenure.domain.states import State
from tenure.stores.opening import absolute


def hint(word: str, known: Collection[str]) -> str:
    """What was probably meant, else what there is."""
    spelled = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), spelled, 1)
    return f"did you mean {spelled[close[0]]!r}?" if close else f"known are {', '.join(known)}"


class Given:
    """Options by their names as they are documented; Spark gives keys in lower case.

    Each method raises `InvalidValue` that names the option and says what it may be.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def check(self, known: Collection[str], verb: str = "load") -> None:
        """Refuses an option that there isn't."""
        spelled = {name.lower(): name for name in known}
        for key in self._options:
            if key not in spelled and key != "path":
                raise InvalidValue(f"option {key!r:.80}: {hint(key, known)}")
        if self._options.get("path"):
            raise InvalidValue(f'a path was given: say .option("url", "sqlite:////path/to/jobs.db").{verb}() instead')

    def url(self) -> str:
        """Where the store is, also for a process in another folder."""
        url = self._options.get("url")
        if not url:
            raise InvalidValue('option url: say where the store is, as in .option("url", "sqlite:////path/to/jobs.db")')
        return absolute(url)

    def tenant(self) -> str | None:
        name = self.text("tenant")
        return None if name is None else names.tenant_name(name)

    def text(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidValue(f"option {name} is empty: give a value, or leave it out")
        return value

    def one_of(self, name: str, known: Sequence[str], otherwise: str) -> str:
        value = self._options.get(name.lower(), otherwise)
        if value not in known:
            raise InvalidValue(f"option {name}={value!r:.80}: give one of {', '.join(known)}")
        return value

    def number(self, name: str, otherwise: int, most: int) -> int:
        """From 1."""
        text = self._options.get(name.lower(), str(otherwise))
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
            raise InvalidValue(f"option {name}={text!r:.80}: give a number from 1 to {most}")
        return int(text)

    def yes(self, name: str, otherwise: bool) -> bool:
        return self.one_of(name, ("true", "false"), str(otherwise).lower()) == "true"

    def name(self, name: str) -> str | None:
        text = self.text(name)
        return None if text is None else names.name(f"option {name}", text)

    def states(self, name: str) -> tuple[State, ...] | None:
        """`failed,running`."""
        text = self.text(name)
        if text is None:
            return None
        known = {state.value: state for state in State}
        asked = [part.strip() for part in text.split(",")]
        if not known.keys() >= set(asked):
            raise InvalidValue(f"option {name}={text!r:.80}: give some of {', '.join(known)}")
        return tuple(known[one] for one in asked)

    def time(self, name: str) -> Ms | None:
        """ISO 8601; UTC where it names no zone."""
        text = self.text(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidValue(f"option {name}={text!r:.80}: give a time such as 2026-01-31T08:00:00Z") from None
        return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1_000)
