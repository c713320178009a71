"""What a write knows of its job type: as an app declares it, else as workers have published it in the store."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tenure.domain.errors import InvalidValue
from tenure.domain.store import Store
from tenure.engine.app import Tenure
from tenure.engine.definition import Definition
from tenure.engine.importing import import_app
from tenure.engine.job_types import JobTypeCard, published
from tenure.spark.given import hint
from tenure.spark.write_options import WriteOptions


class JobType(NamedTuple):
    """Where the jobs of a type go, and what they are sent with."""

    name: str
    queue: str = "default"
    codec: str = "json"
    takes: Sequence[str] | None = None
    """The names of its arguments; None: nobody has said."""
    needs: Sequence[str] = ()

    def check(self, given: Sequence[str]) -> None:
        """Raises `InvalidValue` for arguments that it doesn't take, or that it misses."""
        if self.takes is None:
            return
        for name in given:
            if name not in self.takes:
                raise InvalidValue(
                    f"column {name!r:.80}: job {self.name} takes no such argument; {hint(name, self.takes)}"
                )
        missing = [name for name in self.needs if name not in given]
        if missing:
            raise InvalidValue(f"job {self.name} needs {', '.join(map(repr, missing))}: there is no such column")


def definition_of(app: Tenure, name: str) -> Definition[Any, Any]:
    """The job type as an app declares it. Raises `InvalidValue` when it doesn't."""
    found = app.definitions.get(name)
    if found is None:
        raise InvalidValue(f"option jobType: the app has no job {name!r}; {hint(name, app.definitions)}")
    return found


async def job_type_of(store: Store, options: WriteOptions) -> JobType:
    """What is known, asked in the order in which it is told best."""
    if options.app is not None:
        return _declared(definition_of(import_app(options.app), options.job_type))
    card = await published(store, options.job_type)
    return JobType(options.job_type) if card is None else _published(card)


def _declared(definition: Definition[Any, Any]) -> JobType:
    fields = msgspec.structs.fields(definition.signature.arguments_type)
    takes = [field.name for field in fields]
    needs = [field.name for field in fields if field.required]
    return JobType(definition.name, definition.queue, definition.declared.get("codec", "json"), takes, needs)


def _published(card: JobTypeCard) -> JobType:
    reference = str(card.parameters.get("$ref", "")).removeprefix("#/$defs/")
    schema: dict[str, Any] = card.parameters.get("$defs", {}).get(reference, card.parameters)
    return JobType(card.name, card.queue, card.codec, list(schema.get("properties", {})), schema.get("required", []))
