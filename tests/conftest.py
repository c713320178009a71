"""How tests are spread over processes: those that share a Java go together, the others wherever there is room.

The scope with most tests is begun first, so the Spark session is busy from the beginning and is not what ends last.

pytest-xdist has `--dist loadgroup` for this, which does nothing under pytest 9.2: it marks ids in a place where pytest
no longer looks for them.
"""

import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tenure.testing.postgres import PostgresServer, served
from tests import times

ROOT = Path(__file__).parent.parent
SHARED = {"SparkSession": "spark", "Programs": "programs"}
"""What a module of tests/spark names, and the scope that it belongs to."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A test alone, or all tests of the modules that share something of Spark's."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::")[0]) or nodeid


@cache
def scope_of(module: str) -> str | None:
    if not module.startswith("tests/spark/"):
        return None
    text = (ROOT / module).read_text(encoding="utf-8")
    return next((scope for name, scope in SHARED.items() if name in text), None)


def pytest_configure(config: pytest.Config) -> None:
    """Whoever is started in the background ignores Ctrl-C, and so would every process that a test starts and stops."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    times.install(config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What was logged may hold what UTF-8 can't, as what a handler raised does; xdist sends nothing else."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    return Together(config, log)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL of this process's own, or the one that TENURE_TEST_POSTGRES names."""
    with served() as url:
        yield url


@pytest.fixture(scope="session")
def quiet_postgres_url() -> Iterator[str]:
    """A server that others don't use: a transaction that one test holds open keeps dead rows in every schema."""
    server = PostgresServer()
    yield server.url
    server.remove()
