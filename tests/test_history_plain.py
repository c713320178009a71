"""The plain computation of the lake's tables, rule by rule, on cases that were computed by hand."""

import json
import sqlite3
from array import array
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from bench.history.plain import (
    Event,
    Table,
    bucket_of,
    compare,
    day_of,
    events_of,
    gold,
    pattern_of,
    percentile,
    silver,
    slices,
    table,
)

HOUR = 3_600_000
T = int(datetime(2026, 3, 16, 9, tzinfo=UTC).timestamp() * 1_000)
"""Nine o'clock sharp."""
WINDOW = (T, "acme", "mail", "send")


def feed(*events: dict[str, Any]) -> list[Event]:
    """One event a chunk; version by order unless given."""
    versions: dict[str, int] = {}
    told = []
    for position, event in enumerate(events, 1):
        plain = {"tenant": "acme", "job_id": "a", "queue": "mail", "job_type": "send", "at": T, **event}
        versions[plain["job_id"] or ""] = version = versions.get(plain["job_id"] or "", 0) + 1
        told.append((position, 0, {"version": version, **plain}))
    return told


def enqueued(at: int = T, **fields: Any) -> dict[str, Any]:
    return {"kind": "enqueued", "at": at, "run_at": at, "attempt": 0, "lease_seq": 0, **fields}


def claimed(at: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "claimed", "at": at, "attempt": 1, "lease_seq": 1, "worker": "w", "waited_ms": 0, **fields}


def ended(kind: str, at: int, run_ms: int, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": at, "attempt": 1, "lease_seq": 1, "worker": "w", "run_ms": run_ms, **fields}


# Small rules


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([], 0.5, None), ([7], 0.99, 7.0), ([1, 2], 0.5, 1.5), ([0, 10, 20, 30], 0.95, 28.5), ([0, 10, 20], 0.5, 10.0)],
)
def test_percentiles_are_interpolated(values: list[int], part: float, expected: float | None) -> None:
    assert percentile(array("q", values), part) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ms", "bucket"), [(-5, 0), (0, 0), (1, 0), (2, 36), (3, 56), (100, 233), (60_000, 556), (144_000_000, 949)]
)
def test_buckets_grow_by_two_percent(ms: int, bucket: int) -> None:
    assert bucket_of(ms) == bucket
    assert ms <= 1 or 1.02 ** (bucket - 1) < ms <= 1.02**bucket


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        (None, ""),
        ("", ""),
        ("row 12 of 3.4e10", "row # of #.#e#"),
        ("job 0198C0DE-aaaa-7bbb-8ccc-0123456789ab gone", "job # gone"),
        ("0198c0de-aaaa-7bbb-8ccc-0123456789abc", "#c"),
        ("at 0xDEADbeef, 0xzz", "at #, #xzz"),
        ("no 'a b' or \"c'd\"", "no '…' or \"…\""),
        ("\"it's\" and 'x'", "\"it'…'x'"),
        ('say "it\'s 5"', 'say "…"'),
        ("'' and \"\"", "'…' and \"…\""),
        ("'12'\n\t 'x'\r\ny", "'…' '…' y"),
        ("it's one quote 7", "it's one quote #"),
        ("١٢ \u00a0x", "١٢ \u00a0x"),
        ("🙂" * 201, "🙂" * 200),
        ("1 " * 250, "# " * 100),
        ("7" * 500 + "x", "#x"),
    ],
)
def test_patterns(message: str | None, pattern: str) -> None:
    assert pattern_of(message) == pattern


@pytest.mark.parametrize(
    ("at", "run_ms", "expected"),
    [
        (T + 5, 5, [(T, 5)]),
        (T + 5, 0, [(T, 0)]),
        (T, 0, [(T, 0)]),
        (T, 7, [(T - HOUR, 7), (T, 0)]),
        (T + 5, 6, [(T - HOUR, 1), (T, 5)]),
        (T, HOUR, [(T - HOUR, HOUR), (T, 0)]),
        (T + 10, 2 * HOUR + 15, [(T - 3 * HOUR, 5), (T - 2 * HOUR, HOUR), (T - HOUR, HOUR), (T, 10)]),
    ],
)
def test_attempts_are_cut_over_hours(at: int, run_ms: int, expected: list[tuple[int, int]]) -> None:
    assert list(slices(at, run_ms)) == expected


# gold.hourly


def test_a_job_counts_in_the_hours_of_its_events() -> None:
    found = gold(
        feed(
            enqueued(T - 1),
            claimed(T, waited_ms=1),
            ended("retry_scheduled", T + 5, 5, reason="error"),
            claimed(T + 10, lease_seq=2, waited_ms=3),
            ended("succeeded", T + HOUR - 1, 100, lease_seq=2, reason="ok"),
        )
    ).hourly
    assert set(found) == {(T - HOUR, *WINDOW[1:]), WINDOW}
    first, second = found[T - HOUR, *WINDOW[1:]], found[WINDOW]
    assert {name: value for name, value in first.items() if value} == {"enqueued": 1}
    assert first["wait_p50"] is first["run_p99"] is first["e2e_p95"] is None
    assert {name: value for name, value in second.items() if "_p" not in name and value} == {
        "started": 2,
        "succeeded": 1,
        "retries": 1,
        "busy_ms": 105,
        "slo_n": 1,
    }
    assert (second["wait_p50"], second["wait_p95"], second["wait_p99"]) == pytest.approx((2, 2.9, 2.98))
    assert (second["run_p50"], second["run_p95"]) == pytest.approx((52.5, 95.25))
    assert second["e2e_p50"] == second["e2e_p99"] == HOUR


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        ({"kind": "lease_lost", "reason": "lease_lost", "run_ms": 2}, {"lease_losses": 1, "busy_ms": 2}),
        ({"kind": "failed", "reason": "lease_lost", "run_ms": 2}, {"failed": 1, "lease_losses": 1, "busy_ms": 2}),
        ({"kind": "cancelled", "reason": "lease_lost", "run_ms": 2}, {"cancelled": 1, "lease_losses": 1, "busy_ms": 2}),
        ({"kind": "cancelled", "reason": "expired"}, {"cancelled": 1, "expired": 1}),
        ({"kind": "cancelled", "reason": "cancelled"}, {"cancelled": 1}),
        ({"kind": "released", "reason": "snooze", "run_ms": 3}, {"released": 1, "busy_ms": 3}),
        ({"kind": "claimed"}, {"started": 1}),
    ],
)
def test_what_counts_as_what(event: dict[str, Any], counted: dict[str, int]) -> None:
    row = gold(feed(event)).hourly[WINDOW]
    assert {name: value for name, value in row.items() if value and "_p" not in name} == counted


@pytest.mark.parametrize(
    "kind",
    ["unblocked", "cancel_requested", "rescheduled", "reprioritised", "replayed", "discarded", "progress"],
)
def test_other_kinds_make_no_row(kind: str) -> None:
    assert gold(feed({"kind": kind})).hourly == {}


def test_events_without_a_job_count_nowhere() -> None:
    purged = {"kind": "purged", "job_id": None, "queue": None, "job_type": None, "count": 5}
    assert gold(feed(purged)) == gold([])
    assert silver(feed(purged)) == silver([])


# Due, end to end, SLO


def judged(*events: dict[str, Any]) -> tuple[Any, int, int]:
    row = gold(feed(*events)).hourly[WINDOW]
    return row["e2e_p50"], row["slo_n"], row["slo_ok"]


@pytest.mark.parametrize(
    ("between", "due"),
    [
        ([], 0),
        ([{"kind": "unblocked", "run_at": T + 30, "lease_seq": 0}], 30),
        ([{"kind": "rescheduled", "run_at": T + 40}], 40),
        ([{"kind": "rescheduled", "run_at": T + 40, "lease_seq": 1}], 0),
        ([{"kind": "reprioritised", "run_at": T + 40, "lease_seq": 0}], 0),
        ([{"kind": "unblocked", "run_at": T + 30, "lease_seq": 0}, {"kind": "rescheduled", "run_at": T + 9}], 9),
        (
            [
                {"kind": "rescheduled", "run_at": T + 9, "version": 5},
                {"kind": "rescheduled", "run_at": T, "version": 4},
            ],
            9,
        ),
        ([claimed(T + 1), ended("retry_scheduled", T + 2, 1, run_at=T + 50)], 0),
    ],
)
def test_a_job_is_due_as_its_newest_unclaimed_event_says(between: list[dict[str, Any]], due: int) -> None:
    assert judged(enqueued(), *between, ended("succeeded", T + 100, 1)) == (100 - due, 1, 1)


def test_end_to_end_is_never_below_zero() -> None:
    assert judged(enqueued(run_at=T + 500), ended("succeeded", T + 100, 1)) == (0, 1, 1)


def test_slo_counts_successes_and_failures_that_were_due() -> None:
    assert judged(enqueued(), ended("succeeded", T + 60_000, 1)) == (60_000, 1, 1)
    assert judged(enqueued(), ended("succeeded", T + 60_001, 1)) == (60_001, 1, 0)
    assert judged(enqueued(), ended("failed", T + 1, 1)) == (None, 1, 0)
    assert judged(enqueued(), ended("cancelled", T + 1, 1)) == (None, 0, 0)
    assert judged(ended("succeeded", T + 1, 1)) == (None, 0, 0)
    assert judged(ended("failed", T + 1, 1)) == (None, 0, 0)
    assert gold(feed(enqueued(), ended("succeeded", T + 11, 1)), slo_ms=10).hourly[WINDOW]["slo_ok"] == 0


def test_the_same_id_in_two_tenants_is_two_jobs() -> None:
    found = gold(feed(enqueued(), ended("succeeded", T + 5, 1, tenant="other"))).hourly
    assert found[T, "other", "mail", "send"]["slo_n"] == 0


# gold.latency, failures, usage


def test_latency_counts_every_measure_in_its_bucket() -> None:
    found = gold(
        feed(
            enqueued(),
            claimed(T + 100, waited_ms=100),
            ended("released", T + 102, 2),
            claimed(T + 200, waited_ms=100, lease_seq=2),
            ended("succeeded", T + 200, 0, lease_seq=2),
            claimed(T + 1, job_id="b", waited_ms=None),
            ended("failed", T + 1, 1, job_id="b"),
        )
    ).latency
    assert found == {
        (*WINDOW, "wait", 233): {"n": 2},
        (*WINDOW, "run", 36): {"n": 1},
        (*WINDOW, "run", 0): {"n": 2},
        (*WINDOW, "e2e", bucket_of(200)): {"n": 1},
    }


def test_failures_are_gathered_by_pattern() -> None:
    family = {"error_family": "E"}
    found = gold(
        feed(
            ended("retry_scheduled", T + 9, 1, message="code 1", **family),
            ended("failed", T + 3, 1, message="code 22", **family),
            ended("cancelled", T + 20, 1, message="code 3", job_id="b", **family),
            ended("failed", T + HOUR, 1, message="code 4", job_id="c", **family),
            ended("retry_scheduled", T, 1, job_id="d", **family),
            {"kind": "progress", "message": "no error", "job_id": "e"},
        )
    ).failures
    assert found == {
        (*WINDOW, "E", "code #"): {"n": 3, "final": 1, "example": "code 1", "first_at": T + 3, "last_at": T + 20},
        (T + HOUR, *WINDOW[1:], "E", "code #"): {
            "n": 1,
            "final": 1,
            "example": "code 4",
            "first_at": T + HOUR,
            "last_at": T + HOUR,
        },
        (*WINDOW, "E", ""): {"n": 1, "final": 0, "example": None, "first_at": T, "last_at": T},
    }


def test_usage_is_summed_over_attempts_of_a_worker() -> None:
    place = ("w", "acme", "mail", "send")
    found = gold(
        feed(
            ended("succeeded", T + 5, HOUR),
            ended("released", T, 10, job_id="b"),
            ended("failed", T + 1, 0, job_id="c"),
            ended("failed", T + 1, 50, job_id="d", worker=None),
            {"kind": "cancelled", "worker": "w", "job_id": "e"},
        )
    ).usage
    assert found == {
        (T - HOUR, *place): {"busy_ms": HOUR - 5 + 10, "attempts": 0},
        (T, *place): {"busy_ms": 5, "attempts": 3},
    }


# Silver


def test_a_job_is_folded_from_its_events() -> None:
    jobs = silver(
        feed(
            enqueued(priority=5, max_attempts=3, labels={"a": "b"}, payload_size=9, key_hash="k", replay_of="r"),
            {"kind": "rescheduled", "at": T + 1, "run_at": T + 10, "attempt": 0, "lease_seq": 0},
            {"kind": "reprioritised", "at": T + 2, "priority": 7, "attempt": 0, "lease_seq": 0},
            claimed(T + 12),
            {"kind": "progress", "at": T + 13, "attempt": 1, "lease_seq": 1, "message": "half"},
            ended("retry_scheduled", T + 15, 3, run_at=T + 20, reason="error", error_family="E", message="m"),
            claimed(T + 21, attempt=2, lease_seq=2),
            ended("lease_lost", T + 30, 9, attempt=2, lease_seq=2, run_at=T + 20, reason="lease_lost"),
            claimed(T + 31, attempt=3, lease_seq=3),
            ended("released", T + 32, 1, attempt=2, lease_seq=3, run_at=T + 20, reason="shutdown"),
            claimed(T + 33, attempt=3, lease_seq=4),
            ended("failed", T + 40, 7, attempt=3, lease_seq=4, reason="exhausted"),
            {"kind": "replayed", "at": T + 50, "attempt": 3, "lease_seq": 4, "new_id": "n"},
        )
    ).jobs
    assert jobs == {
        ("acme", "a"): {
            "queue": "mail",
            "job_type": "send",
            "state": "failed",
            "version": 12,
            "attempt": 3,
            "lease_seq": 4,
            "priority": 7,
            "max_attempts": 3,
            "key_hash": "k",
            "group": None,
            "labels": {"a": "b"},
            "parents": None,
            "replay_of": "r",
            "payload_size": 9,
            "enqueued_at": T,
            "due_at": T + 10,
            "run_at": T + 20,
            "first_claimed_at": T + 12,
            "finished_at": T + 40,
            "reason": "exhausted",
            "error_family": "E",
            "error_message": "m",
            "result_size": None,
            "claims": 4,
            "retries": 1,
            "lease_losses": 1,
            "releases": 1,
            "busy_ms": 20,
            "e2e_ms": 30,
            "pos": 12,
            "part": "2026-03-16",
        }
    }


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([enqueued()], "pending"),
        ([enqueued(parents=["p"])], "blocked"),
        ([enqueued(parents=["p"]), {"kind": "unblocked"}], "pending"),
        ([enqueued(), claimed(T)], "running"),
        ([enqueued(), claimed(T), {"kind": "cancel_requested"}], "running"),
        ([enqueued(), claimed(T), {"kind": "progress"}], "running"),
        ([enqueued(), claimed(T), ended("retry_scheduled", T, 0, reason="error")], "pending"),
        ([enqueued(), claimed(T), ended("released", T, 0, reason="stopped")], "pending"),
        ([enqueued(), claimed(T), ended("lease_lost", T, 0, reason="lease_lost")], "pending"),
    ],
)
def test_open_jobs_stand_as_their_newest_event_says(events: list[dict[str, Any]], state: str) -> None:
    job = silver(feed(*events)).jobs["acme", "a"]
    assert job["state"] == state
    assert (job["part"], job["reason"], job["finished_at"], job["e2e_ms"]) == ("open", None, None, None)


@pytest.mark.parametrize("kind", ["succeeded", "failed", "cancelled"])
def test_ended_jobs_lie_in_the_day_of_their_end(kind: str) -> None:
    midnight = T + 15 * HOUR
    late = silver(feed(enqueued(), ended(kind, midnight - 1, 5, reason="r", result_size=4))).jobs["acme", "a"]
    early = silver(feed(enqueued(), ended(kind, midnight, 5, reason="r"))).jobs["acme", "a"]
    assert (late["state"], late["reason"], late["result_size"], late["part"]) == (kind, "r", 4, "2026-03-16")
    assert (early["part"], early["e2e_ms"]) == ("2026-03-17", 15 * HOUR)


def test_attempts_open_with_their_claim_and_close_with_their_lease() -> None:
    found = silver(
        feed(
            enqueued(),
            claimed(T + 1, waited_ms=1),
            ended("released", T + 3, 2, attempt=0, reason="snooze"),
            {"kind": "cancel_requested", "lease_seq": 1},
            claimed(T + 4, lease_seq=2, worker="v"),
            ended("failed", T + 9, 5, job_id="unseen", error_family="E", message="m"),
        )
    ).attempts
    assert found == {
        ("acme", "a", 1): {
            "queue": "mail",
            "job_type": "send",
            "attempt": 1,
            "worker": "w",
            "claimed_at": T + 1,
            "waited_ms": 1,
            "finished_at": T + 3,
            "run_ms": 2,
            "outcome": "released",
            "reason": "snooze",
            "error_family": None,
            "error_message": None,
            "pos": 3,
            "part": "2026-03-16",
        },
        ("acme", "a", 2): {
            "queue": "mail",
            "job_type": "send",
            "attempt": 1,
            "worker": "v",
            "claimed_at": T + 4,
            "waited_ms": 0,
            **dict.fromkeys(("finished_at", "run_ms", "outcome", "reason", "error_family", "error_message")),
            "pos": 5,
            "part": "open",
        },
    }


def test_dispositions_are_kept_apart() -> None:
    found = silver(
        feed({"kind": "replayed", "at": T, "new_id": "n"}, {"kind": "discarded", "at": T + 1, "job_id": "b"})
    )
    assert found.dispositions == {
        ("acme", "a", "replayed", T, 1): {"new_id": "n", "day": "2026-03-16"},
        ("acme", "b", "discarded", T + 1, 2): {"new_id": None, "day": "2026-03-16"},
    }
    assert found.jobs == {}


def test_days_are_utc() -> None:
    assert [day_of(T + hours * HOUR) for hours in (-10, -9, 14, 15)] == [
        "2026-03-15",
        "2026-03-16",
        "2026-03-16",
        "2026-03-17",
    ]


# Reading and comparing


def test_the_feed_is_read_in_order_with_places(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE feed (position INTEGER PRIMARY KEY, tenant, at, body)")
    lines = [{"n": 1, "text": "a\nb\u2028c"}, {"n": 2}, {"n": 3}]
    bodies = [json.dumps(line, ensure_ascii=False) + "\n" for line in lines]
    connection.execute("INSERT INTO feed VALUES (8, '', 0, ?)", (bodies[2].encode(),))
    connection.execute("INSERT INTO feed VALUES (7, '', 0, ?)", ((bodies[0] + bodies[1]).encode(),))
    connection.commit()
    connection.close()
    assert list(events_of(tmp_path / "a.db")) == [(7, 0, lines[0]), (7, 1, lines[1]), (8, 0, lines[2])]


def test_rows_of_a_reader_are_summed_by_their_key() -> None:
    hour = datetime.fromtimestamp(T / 1_000, UTC)
    place = {"hour": hour, "tenant": "acme", "queue": "mail", "job_type": "send", "day": "2026-03-16"}
    usage = [
        {**place, "worker": "w", "busy_ms": 1, "attempts": 1},
        {**place, "worker": "w", "busy_ms": 5, "attempts": 0},
    ]
    assert table("usage", usage) == {(T, "w", "acme", "mail", "send"): {"busy_ms": 6, "attempts": 1}}
    latency = [{**place, "measure": "run", "bucket": 3, "n": n} for n in (2, 40)]
    assert table("latency", latency) == {(*WINDOW, "run", 3): {"n": 42}}
    late = {"n": 1, "final": 0, "example": "late", "first_at": hour + timedelta(seconds=2), "last_at": hour}
    soon = {"n": 2, "final": 1, "example": "soon", "first_at": hour, "last_at": hour.astimezone(timezone.max)}
    rows = [{**place, "error_family": "E", "pattern": "p", **one} for one in (late, soon)]
    assert table("failures", rows) == {
        (*WINDOW, "E", "p"): {"n": 3, "final": 1, "example": "soon", "first_at": T, "last_at": T}
    }
    with pytest.raises(ValueError, match="two rows of one key"):
        table("hourly", [place, place])


KEY = ("k",)


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        ({}, {}, []),
        ({KEY: {"n": 1}}, {KEY: {"n": 1, "own": 2}}, []),
        ({KEY: {"n": 1}}, {}, ["('k',): missing"]),
        ({}, {KEY: {"n": 1}}, ["('k',): not expected"]),
        ({KEY: {"n": 1}}, {KEY: {"n": 2}}, ["('k',): n is 2, not 1"]),
        ({KEY: {"n": 1}}, {KEY: {}}, ["('k',): n is missing"]),
        ({KEY: {"n": 10**9}}, {KEY: {"n": 10**9 + 1}}, ["('k',): n is 1000000001, not 1000000000"]),
        ({KEY: {"n": 1.0}}, {KEY: {"n": 1.0000001}}, []),
        ({KEY: {"n": 1.0}}, {KEY: {"n": 1.00001}}, ["('k',): n is 1.00001, not 1.0"]),
        ({KEY: {"n": None}}, {KEY: {"n": 0}}, ["('k',): n is 0, not None"]),
        ({KEY: {"n": 0.0}}, {KEY: {"n": None}}, ["('k',): n is None, not 0.0"]),
        ({KEY: {"n": {"a": "b"}}}, {KEY: {"n": [("a", "b")]}}, []),
        ({KEY: {"n": ["a"]}}, {KEY: {"n": ("b",)}}, ["('k',): n is ('b',), not ['a']"]),
    ],
)
def test_differences_are_said(expected: Table, found: Table, said: list[str]) -> None:
    assert compare(expected, found) == said


def test_at_most_twenty_lines_are_said() -> None:
    expected: Table = {(f"{number:03}",): {} for number in range(25)}
    assert len(compare({key: {} for key in list(expected)[:20]}, {})) == 20
    said = compare(expected, {})
    assert (len(said), said[0], said[-1]) == (20, "('000',): missing", "and 6 more")
