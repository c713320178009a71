"""What the lake must hold, computed by plain Python over the same events: slow, simple, and sharing no code with it.

A table is a dict: the values of its key columns → the other columns by name. Times are milliseconds since the epoch,
as in the events; `table` brings rows that were read from elsewhere into this form, for `compare`.
"""

import json
import math
import re
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Event = tuple[int, int, dict[str, Any]]
"""(feed position, place in the chunk, fields)."""
Key = tuple[Any, ...]
Table = dict[Key, dict[str, Any]]

HOUR = 3_600_000
SLO_MS = 60_000
MOST_LINES = 20
TERMINAL = ("succeeded", "failed", "cancelled")

KEYS: dict[str, tuple[str, ...]] = {
    "hourly": ("hour", "tenant", "queue", "job_type"),
    "latency": ("hour", "tenant", "queue", "job_type", "measure", "bucket"),
    "failures": ("hour", "tenant", "queue", "job_type", "error_family", "pattern"),
    "usage": ("hour", "worker", "tenant", "queue", "job_type"),
    "jobs": ("tenant", "job_id"),
    "attempts": ("tenant", "job_id", "lease_seq"),
    "dispositions": ("tenant", "job_id", "kind", "at", "pos"),
}


def events_of(path: str | Path) -> Iterator[Event]:
    """The feed of a SQLite store, in order."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for position, body in connection.execute("SELECT position, body FROM feed ORDER BY position"):
            for index, line in enumerate(body.decode().rstrip("\n").split("\n")):
                yield position, index, json.loads(line)
    finally:
        connection.close()


# Small rules


def hour_of(at: int) -> int:
    return at - at % HOUR


def day_of(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000, UTC).strftime("%Y-%m-%d")


def percentile(ordered: "array[int]", part: float) -> float | None:
    """By linear interpolation between the two nearest of the sorted values."""
    if not ordered:
        return None
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def bucket_of(ms: int) -> int:
    return math.ceil(math.log(max(ms, 1)) / math.log(1.02))


_REPLACEMENTS = (
    (re.compile("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"), "#"),
    (re.compile("0x[0-9a-fA-F]+"), "#"),
    (re.compile("'[^']*'"), "'…'"),
    (re.compile('"[^"]*"'), '"…"'),
    (re.compile("[0-9]+"), "#"),
    (re.compile("[ \t\r\n]+"), " "),
)


def pattern_of(message: str | None) -> str:
    pattern = message or ""
    for found, put in _REPLACEMENTS:
        pattern = found.sub(put, pattern)
    return pattern[:200]


def slices(at: int, run_ms: int) -> Iterator[tuple[int, int]]:
    """(hour, busy_ms) of an attempt that ended then, the hour of its end always among them."""
    start = at - run_ms
    while hour_of(start) < hour_of(at):
        stop = hour_of(start) + HOUR
        yield hour_of(start), stop - start
        start = stop
    yield hour_of(at), at - start


class Due:
    """When each unfinished job is due: the run_at of its newest event that says so before its first claim."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, int | None]] = {}

    def see(self, event: dict[str, Any]) -> None:
        if event["kind"] in ("enqueued", "unblocked", "rescheduled") and not event.get("lease_seq"):
            ref = (event["tenant"], event["job_id"])
            version, _ = self._known.get(ref, (0, None))
            if event["version"] > version:
                self._known[ref] = (event["version"], event.get("run_at"))

    def of(self, event: dict[str, Any]) -> int | None:
        return self._known.get((event["tenant"], event["job_id"]), (0, None))[1]

    def forget(self, event: dict[str, Any]) -> None:
        self._known.pop((event["tenant"], event["job_id"]), None)


def lost_lease(event: dict[str, Any]) -> bool:
    return event["kind"] == "lease_lost" or event.get("reason") == "lease_lost"


# Gold


@dataclass
class Gold:
    """The four tables, the additive ones summed."""

    hourly: Table = field(default_factory=dict)
    latency: Table = field(default_factory=dict)
    failures: Table = field(default_factory=dict)
    usage: Table = field(default_factory=dict)


_COUNTED = {
    "enqueued": "enqueued",
    "claimed": "started",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "retry_scheduled": "retries",
    "released": "released",
}
_COUNTS = (*_COUNTED.values(), "expired", "lease_losses", "busy_ms", "slo_n", "slo_ok")


def gold(events: Iterable[Event], slo_ms: int = SLO_MS) -> Gold:
    """Of events in feed order."""
    found = Gold()
    measured: dict[str, dict[Key, array[int]]] = {
        measure: defaultdict(lambda: array("q")) for measure in ("wait", "run", "e2e")
    }
    due = Due()
    for _, _, event in events:
        if event.get("job_id") is None:
            continue
        due.see(event)
        window = (hour_of(event["at"]), event["tenant"], event["queue"], event["job_type"])
        _count(found.hourly, window, event)
        if event["kind"] == "claimed" and event.get("waited_ms") is not None:
            measured["wait"][window].append(event["waited_ms"])
        if event.get("run_ms") is not None:
            measured["run"][window].append(event["run_ms"])
            _use(found.usage, event)
        if event.get("error_family") is not None:
            _fail(found.failures, window, event)
        if event["kind"] in TERMINAL:
            e2e = _judge(found.hourly[window], event, due.of(event), slo_ms)
            if e2e is not None:
                measured["e2e"][window].append(e2e)
            due.forget(event)
    for measure, windows in measured.items():
        _percentiles(found.hourly, measure, windows)
        _spread(found.latency, measure, windows)
    return found


def _count(hourly: Table, window: Key, event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind not in _COUNTED and not lost_lease(event):
        return
    row = hourly.setdefault(window, dict.fromkeys(_COUNTS, 0))
    if kind in _COUNTED:
        row[_COUNTED[kind]] += 1
    if kind == "cancelled" and event.get("reason") == "expired":
        row["expired"] += 1
    if lost_lease(event):
        row["lease_losses"] += 1
    row["busy_ms"] += event.get("run_ms") or 0


def _judge(row: dict[str, Any], event: dict[str, Any], due_at: int | None, slo_ms: int) -> int | None:
    """Counts a terminal event for the SLO; its e2e_ms if the job succeeded and was known to be due."""
    if due_at is None or event["kind"] == "cancelled":
        return None
    row["slo_n"] += 1
    if event["kind"] == "failed":
        return None
    e2e: int = max(0, event["at"] - due_at)
    row["slo_ok"] += e2e <= slo_ms
    return e2e


def _use(usage: Table, event: dict[str, Any]) -> None:
    if event.get("worker") is None:
        return
    for hour, busy_ms in slices(event["at"], event["run_ms"]):
        key = (hour, event["worker"], event["tenant"], event["queue"], event["job_type"])
        row = usage.setdefault(key, {"busy_ms": 0, "attempts": 0})
        row["busy_ms"] += busy_ms
        row["attempts"] += hour == hour_of(event["at"])


def _fail(failures: Table, window: Key, event: dict[str, Any]) -> None:
    key = (*window, event["error_family"], pattern_of(event.get("message")))
    first = {"n": 0, "final": 0, "example": event.get("message"), "first_at": event["at"], "last_at": event["at"]}
    row = failures.setdefault(key, first)
    row["n"] += 1
    row["final"] += event["kind"] == "failed"
    row["first_at"] = min(row["first_at"], event["at"])
    row["last_at"] = max(row["last_at"], event["at"])


def _percentiles(hourly: Table, measure: str, windows: "dict[Key, array[int]]") -> None:
    for window, row in hourly.items():
        ordered = array("q", sorted(windows.get(window, ())))
        for name, part in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
            row[f"{measure}_{name}"] = percentile(ordered, part)


def _spread(latency: Table, measure: str, windows: "dict[Key, array[int]]") -> None:
    for window, values in windows.items():
        for ms in values:
            latency.setdefault((*window, measure, bucket_of(ms)), {"n": 0})["n"] += 1


# Silver


@dataclass
class Silver:
    """The three tables."""

    jobs: Table = field(default_factory=dict)
    attempts: Table = field(default_factory=dict)
    dispositions: Table = field(default_factory=dict)


_FROM_ENQUEUED = ("max_attempts", "key_hash", "group", "labels", "parents", "replay_of", "payload_size")
_STATES = {
    "unblocked": "pending",
    "claimed": "running",
    "retry_scheduled": "pending",
    "lease_lost": "pending",
    "released": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}
_TALLIES = {"claimed": "claims", "retry_scheduled": "retries", "released": "releases"}
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("queue", "job_type", "state", "version", "attempt", "lease_seq", "priority")),
    **dict.fromkeys(_FROM_ENQUEUED),
    **dict.fromkeys(("enqueued_at", "due_at", "run_at", "first_claimed_at", "finished_at", "reason")),
    **dict.fromkeys(("error_family", "error_message", "result_size")),
    **dict.fromkeys(("claims", "retries", "lease_losses", "releases", "busy_ms"), 0),
    **dict.fromkeys(("e2e_ms", "pos")),
    "part": "open",
}


def silver(events: Iterable[Event]) -> Silver:
    """Of events in feed order."""
    found = Silver()
    due = Due()
    for position, _, event in events:
        if event.get("job_id") is None:
            continue
        if event["kind"] in ("replayed", "discarded"):
            key = (event["tenant"], event["job_id"], event["kind"], event["at"], position)
            found.dispositions[key] = {"new_id": event.get("new_id"), "day": day_of(event["at"])}
            continue
        due.see(event)
        job = found.jobs.setdefault((event["tenant"], event["job_id"]), dict(_EMPTY))
        _fold(job, position, event, due)
        _lease(found.attempts, position, event)
    return found


def _fold(job: dict[str, Any], position: int, event: dict[str, Any], due: Due) -> None:
    """What the newest event of a job changes in its row."""
    kind = event["kind"]
    for name in ("queue", "job_type", "version", "attempt", "lease_seq"):
        job[name] = event.get(name)
    job["pos"] = position
    for name in ("priority", "run_at"):
        if event.get(name) is not None:
            job[name] = event[name]
    if kind == "enqueued":
        job["state"] = "blocked" if event.get("parents") else "pending"
        job["enqueued_at"] = event["at"]
        job.update({name: event.get(name) for name in _FROM_ENQUEUED})
    else:
        job["state"] = _STATES.get(kind, job["state"])
    if kind == "claimed" and job["first_claimed_at"] is None:
        job["first_claimed_at"] = event["at"]
    if event.get("error_family") is not None:
        job["error_family"], job["error_message"] = event["error_family"], event.get("message")
    if kind in _TALLIES:
        job[_TALLIES[kind]] += 1
    job["lease_losses"] += lost_lease(event)
    job["busy_ms"] += event.get("run_ms") or 0
    job["due_at"] = due.of(event)
    if kind in TERMINAL:
        _finish(job, event)
        due.forget(event)


def _finish(job: dict[str, Any], event: dict[str, Any]) -> None:
    job["finished_at"] = event["at"]
    job["part"] = day_of(event["at"])
    job["reason"], job["result_size"] = event.get("reason"), event.get("result_size")
    if job["due_at"] is not None:
        job["e2e_ms"] = max(0, event["at"] - job["due_at"])


def _lease(attempts: Table, position: int, event: dict[str, Any]) -> None:
    """A claim opens a row; the event with run_ms of that lease closes it."""
    key = (event["tenant"], event["job_id"], event.get("lease_seq"))
    if event["kind"] == "claimed":
        attempts[key] = {
            **{name: event.get(name) for name in ("queue", "job_type", "attempt", "worker")},
            "claimed_at": event["at"],
            "waited_ms": event.get("waited_ms"),
            **dict.fromkeys(("finished_at", "run_ms", "outcome", "reason", "error_family", "error_message")),
            "pos": position,
            "part": "open",
        }
    elif event.get("run_ms") is not None and key in attempts:
        attempts[key].update(
            finished_at=event["at"],
            run_ms=event["run_ms"],
            outcome=event["kind"],
            reason=event.get("reason"),
            error_family=event.get("error_family"),
            error_message=event.get("message"),
            pos=position,
            part=day_of(event["at"]),
        )


# Comparing


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Rows as a reader of the lake gets them: several of one key are summed, as that table's page says."""
    keys = KEYS[name]
    found: Table = {}
    for row in rows:
        plain = {column: _plain(value) for column, value in row.items()}
        key = tuple(plain.pop(column) for column in keys)
        if name in ("latency", "failures", "usage"):
            plain.pop("day", None)
        found[key] = _sum(name, found[key], plain) if key in found else plain
    return found


def _plain(value: Any) -> Any:
    """Times as milliseconds, maps and arrays as Python's own, what isn't a number as None."""
    if isinstance(value, datetime):
        at = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(at.timestamp() * 1_000)
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _sum(name: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if name not in ("latency", "failures", "usage"):
        raise ValueError(f"{name}: two rows of one key: {one} and {other}")
    added = {column: one[column] + other[column] for column in one if column not in _NOT_ADDED}
    if name != "failures":
        return added
    first = min((one, other), key=lambda row: row["first_at"])
    last_at = max(one["last_at"], other["last_at"])
    return {**added, "example": first["example"], "first_at": first["first_at"], "last_at": last_at}


_NOT_ADDED = frozenset({"example", "first_at", "last_at"})


def compare(expected: Table, found: Table) -> list[str]:
    """What differs, in words: counts exactly, doubles to a millionth. At most 20 lines, the last says how many more."""
    said: list[str] = []
    for key in expected.keys() | found.keys():
        if key not in found:
            said.append(f"{key}: missing")
        elif key not in expected:
            said.append(f"{key}: not expected")
        elif different := _differences(expected[key], found[key]):
            said.append(f"{key}: {different}")
    said.sort()
    more = len(said) - MOST_LINES + 1
    return said if len(said) <= MOST_LINES else [*said[: MOST_LINES - 1], f"and {more} more"]


def _differences(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """Of the columns that are expected; others are the finder's own."""
    return ", ".join(
        f"{name} is {found[name]!r}, not {value!r}" if name in found else f"{name} is missing"
        for name, value in expected.items()
        if name not in found or not _same(value, found[name])
    )


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(expected, dict) and isinstance(found, list | tuple):
        return expected == dict(found)
    if isinstance(expected, list) and found is not None:
        return expected == list(found)
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)
