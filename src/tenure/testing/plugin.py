"""The pytest plugin: `tenure_sandbox` puts the app that `tenure_app = module:app` in pytest's configuration names
into a sandbox for one test; `tenure_sandboxed(app)` does so for any app.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenure.engine.app import Tenure
    from tenure.testing.sandbox import Sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_app", "the app under test, as module:attribute", default="")


@pytest.fixture
def tenure_sandboxed() -> "Iterator[Callable[[Tenure], Sandbox]]":
    """Puts an app into a sandbox until the test ends."""
    from tenure.testing.sandbox import sandbox

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(sandbox(app))


@pytest.fixture
def tenure_sandbox(request: pytest.FixtureRequest, tenure_sandboxed: "Callable[[Tenure], Sandbox]") -> "Sandbox":
    """The app under test in a sandbox."""
    from tenure.engine.importing import import_app

    target = str(request.config.getini("tenure_app"))
    if not target:
        pytest.fail('tell pytest which app to test: tenure_app = "module:app" under [tool.pytest.ini_options]')
    return tenure_sandboxed(import_app(target))
