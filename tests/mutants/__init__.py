"""Deliberate bugs, changes of text inside one symbol each, that the suite must find: `python -m tests.mutants`."""
