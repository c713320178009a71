"""Deliberate bugs, one patch each, that the suite must find: `python -m tests.mutants`, or `make mutants`."""
