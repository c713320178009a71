"""Fairness at small sizes: exact counts of what `python -m bench fairness` shows at full size."""

import asyncio
from pathlib import Path

import pytest

from bench.fairness import CLAIMS, MAKES, Make, Sizes, lone, play, shares, small_beside_large

SMALL = Sizes(tenants=12, large=300, small=4, weighted_tenants=6, weighted_jobs=240, lone=120)


@pytest.fixture(params=list(MAKES))
def make(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


@pytest.mark.parametrize("n", CLAIMS)
def test_small_tenants_are_served_within_one_rotation(make: Make, tmp_path: Path, n: int) -> None:
    seen = asyncio.run(play(make, tmp_path, small_beside_large, SMALL, n))
    assert seen["ok"], seen
    assert seen["longest_wait"] == seen["rotation"] == 12
    assert seen["longest_wait_for_first"] <= 11


@pytest.mark.parametrize("n", CLAIMS)
def test_shares_follow_the_weights(make: Make, tmp_path: Path, n: int) -> None:
    """Each worker's cursor gives exact rounds; only the two unfinished rounds at the end can be off."""
    seen = asyncio.run(play(make, tmp_path, shares, SMALL, n))
    rounds = seen["served"] / 12
    assert seen["served"] > 300
    assert seen["furthest_off"] <= 2 / rounds + 0.0001, seen


def test_a_lone_tenant_gets_everything(make: Make, tmp_path: Path) -> None:
    seen = asyncio.run(play(make, tmp_path, lone, SMALL, 50))
    assert (seen["served"], seen["ok"]) == (120, True)
