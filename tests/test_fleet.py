"""Whole workers together, in small; `make fleet` runs the whole campaign."""

from pathlib import Path

from tests.fleet.campaign import Plan, run


def test_two_hundred_jobs_over_eight_workers_run_once_each(tmp_path: Path) -> None:
    report = run(Plan(folder=tmp_path, jobs=200, workers=8, kills=0, lease_seconds=30), print)
    assert report.faults == []
    assert (report.succeeded, report.lost, report.settled_twice, report.leases_lost, report.crashed) == (
        200,
        0,
        0,
        0,
        0,
    )
    assert report.workers_seen > 1


def test_killed_children_and_supervisors_lose_nothing(tmp_path: Path) -> None:
    report = run(Plan(folder=tmp_path, jobs=600, workers=2, kills=4, pace_seconds=0.3), print)
    assert report.faults == []
    assert (report.succeeded, report.lost, report.settled_twice) == (600, 0, 0)
    assert report.child_kills + report.supervisor_kills == 4
