"""Tests that run on every kind of store that Spark's processes can share."""

import pytest

BOTH = pytest.mark.parametrize("store_url", ["sqlite", "postgres"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
