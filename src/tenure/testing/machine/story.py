"""Calls and answers in few words, so that a finding can be read: fields at their defaults are left out."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tenure.domain.calls import Claimed, ClaimedJob, JobView
from tenure.domain.job import Job, Token
from tenure.domain.names import Ms
from tenure.testing.clock import START

Call = tuple[Ms, str, tuple[Any, ...], dict[str, Any], object]
"""When, verb, arguments, options, answer."""


def tell(calls: Iterable[Call]) -> str:
    """One line a call: the time since the world began, the call, the answer."""
    return "\n".join(
        f"  {at - START:>+9} {_asked(verb, args, options)} -> {brief(answer)}"
        for at, verb, args, options, answer in calls
    )


def _asked(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
    given = [*map(brief, args), *(f"{name}={brief(value)}" for name, value in options.items() if value)]
    return f"{verb}({', '.join(given)})"


def brief(value: Any) -> str:
    """A value, short: ids by their first letters, times since the world began."""
    match value:
        case JobView():
            gates = "".join(f" {gate.value}" for gate in value.gates)
            return f"<{_job(value.job)} {value.status.value}{gates}>"
        case ClaimedJob():
            return f"<{_job(value.job)} lease {brief(value.job.lease)}>"
        case Claimed():
            return f"{brief(list(value.jobs))} {brief(value.cursor)} wake {value.wake_after}"
        case Token():
            return f"{value.tenant}/{value.job_id[:4]}#{value.lease_seq}:{value.secret.hex()[:4]}"
        case msgspec.Struct():
            return f"{type(value).__name__}({', '.join(_set_fields(value))})"
        case list() | tuple():
            return f"[{', '.join(map(brief, value))}]"
        case bytes():
            return value.hex()[:4] if len(value) == 16 else repr(value)
        case str():
            return value[:4] if len(value) == 36 else str(value)
        case int() if value > START // 2:
            return f"{value - START:+}"
    return repr(value)


def _job(job: Job) -> str:
    name = f"{job.spec.tenant}/{job.spec.id[:4]} {job.spec.queue}"
    return f"{name} {job.state.value} v{job.version} attempt {job.attempt} lease {job.lease_seq}"


def _set_fields(value: msgspec.Struct) -> Iterable[str]:
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        if field.required or content not in (field.default, None, {}, ()):
            yield f"{field.name}={brief(content)}"
