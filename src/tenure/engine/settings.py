"""Settings: one typed table. What isn't given comes from the environment (`TENURE_…`), then from here."""

import os
from collections.abc import Mapping

import msgspec

from tenure.blobs.spill import PAYLOAD_THRESHOLD, RESULT_THRESHOLD
from tenure.domain import names
from tenure.domain.errors import InvalidValue

PREFIX = "TENURE_"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds."""

    url: str | None = None
    """Where the store is."""
    blobs: str | None = None
    """Where blobs are, if anywhere: file:///folder, s3://bucket/prefix, memory://."""
    inline_payload: int = PAYLOAD_THRESHOLD
    """Bytes up to which a payload lies in its record; a larger one goes to the blob store, if there is one."""
    inline_result: int = RESULT_THRESHOLD
    """The same for results."""
    concurrency: int = 100
    """Jobs that one worker process runs at once."""
    lease: float = 60
    """How long a worker may be silent before its jobs go to others."""
    grace: float = 5
    """How long after that the store still accepts the worker's answer."""
    poll: float = 0.5
    """How long an idle worker waits for a hint before it looks itself; grows up to `poll_at_most`."""
    poll_at_most: float = 2
    """The longest that an idle worker waits for a hint before it looks itself."""
    shutdown_grace: float = 30
    """How long a worker that was told to stop lets its jobs go on."""
    pool: int = 0
    """Processes that handlers with executor='process' share in one worker; 0 is as many as there are processors."""
    cancel_grace: float = 10
    """How long a handler that was told to end may take before it is ended by force, where it can be."""

    def __post_init__(self) -> None:
        names.integer("concurrency", self.concurrency, 1, names.MAX_BATCH)
        names.integer("pool", self.pool, 0, 1_000)
        names.integer("inline_payload", self.inline_payload, 0, names.MAX_PAYLOAD)
        names.integer("inline_result", self.inline_result, 0, names.MAX_RESULT)
        for field, low, high in _BOUNDS:
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InvalidValue(f"{field} {value!r:.80}: give {low:g} to {high:g} seconds")
        if self.poll > self.poll_at_most:
            raise InvalidValue(f"poll {self.poll:g} is above poll_at_most {self.poll_at_most:g}")


_BOUNDS = (
    ("lease", 0.05, 86_400.0),
    ("grace", 0.0, 86_400.0),
    ("poll", 0.01, 3_600.0),
    ("poll_at_most", 0.01, 3_600.0),
    ("shutdown_grace", 0.0, 86_400.0),
    ("cancel_grace", 0.0, 86_400.0),
)


def settings_from(environment: Mapping[str, str] | None = None, **given: object) -> Settings:
    """The settings, with whatever was given over the environment. A malformed variable is an error that names it."""
    environment = os.environ if environment is None else environment
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(Settings):
        variable = PREFIX + field.name.upper()
        if variable in environment:
            try:
                found[field.name] = msgspec.convert(environment[variable], field.type, strict=False)
            except msgspec.ValidationError as error:
                raise InvalidValue(f"{variable}={environment[variable]!r}: {error}") from None
    values = {**found, **{name: value for name, value in given.items() if value is not None}}
    try:
        return Settings(**values)  # type: ignore[arg-type]  # checked by __post_init__
    except InvalidValue as error:
        variables = ", ".join(PREFIX + name.upper() for name in found)
        raise InvalidValue(f"{error} (set by the environment: {variables or 'nothing'})") from None
