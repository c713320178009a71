"""The conformance suite: what every store must do, one class of tests a topic.

A store's test file is a factory and one import:

    import pytest

    from tenure.testing.conformance import *  # noqa: F403 the suite
    from tenure.testing.factory import StoreFactory


    @pytest.fixture
    def factory() -> StoreFactory:
        return MyStoreFactory()

`pytest -k TestLeases` runs one topic. Expected values come from the contract (`docs/semantics.md`), never from a store.
"""

from pkgutil import iter_modules
from types import ModuleType

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from tenure.testing.conformance import (  # noqa: E402 after the rewrite is registered
    bugs,
    cancel,
    clock,
    dead_letters,
    depth,
    documents,
    exchange,
    expiry,
    explain,
    fairness,
    feed,
    flows,
    freeze,
    groups,
    keys,
    leases,
    limits,
    order,
    pause,
    query,
    rates,
    refusals,
    repeat,
    results,
    retention,
    settle,
    tenancy,
    tracebacks,
    wait,
)
from tenure.testing.conformance.kit import world  # noqa: E402


def topic(module: ModuleType) -> type:
    """A test class of a module's tests, so that stores' reports name the topic."""
    tests = {name: staticmethod(test) for name, test in vars(module).items() if name.startswith("test_")}
    return type(module.__name__, (), {"__doc__": module.__doc__, "__module__": module.__name__, **tests})


TestBugs = topic(bugs)
TestCancel = topic(cancel)
TestClock = topic(clock)
TestDeadLetters = topic(dead_letters)
TestDepth = topic(depth)
TestDocuments = topic(documents)
TestExchange = topic(exchange)
TestExpiry = topic(expiry)
TestExplain = topic(explain)
TestFairness = topic(fairness)
TestFeed = topic(feed)
TestFlows = topic(flows)
TestFreeze = topic(freeze)
TestGroups = topic(groups)
TestKeys = topic(keys)
TestLeases = topic(leases)
TestLimits = topic(limits)
TestOrder = topic(order)
TestPause = topic(pause)
TestQuery = topic(query)
TestRates = topic(rates)
TestRefusals = topic(refusals)
TestRepeat = topic(repeat)
TestResults = topic(results)
TestRetention = topic(retention)
TestSettle = topic(settle)
TestTenancy = topic(tenancy)
TestTracebacks = topic(tracebacks)
TestWait = topic(wait)

__all__ = [
    "TestBugs",
    "TestCancel",
    "TestClock",
    "TestDeadLetters",
    "TestDepth",
    "TestDocuments",
    "TestExchange",
    "TestExpiry",
    "TestExplain",
    "TestFairness",
    "TestFeed",
    "TestFlows",
    "TestFreeze",
    "TestGroups",
    "TestKeys",
    "TestLeases",
    "TestLimits",
    "TestOrder",
    "TestPause",
    "TestQuery",
    "TestRates",
    "TestRefusals",
    "TestRepeat",
    "TestResults",
    "TestRetention",
    "TestSettle",
    "TestTenancy",
    "TestTracebacks",
    "TestWait",
    "world",
]
