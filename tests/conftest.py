"""How tests are spread over processes: those that share a Spark session go together, the others wherever there is room.

pytest-xdist has `--dist loadgroup` for this, which does nothing under pytest 9.2: it marks ids in a place where pytest
no longer looks for them.
"""

import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tenure.testing.postgres import PostgresServer, served

ROOT = Path(__file__).parent.parent
SESSION = "SparkSession"


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A test alone, or all tests of the modules that name a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if needs_session(nodeid.split("::")[0]) else nodeid


@cache
def needs_session(module: str) -> bool:
    return module.startswith("tests/spark/") and SESSION in (ROOT / module).read_text(encoding="utf-8")


def pytest_configure() -> None:
    """Whoever is started in the background ignores Ctrl-C, and so would every process that a test starts and stops."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
