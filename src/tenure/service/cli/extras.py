"""Commands that need the extra `spark`."""

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.domain.errors import NotReady
from tenure.domain.extras import Extra, needs


@contextmanager
def spark_extra() -> Iterator[None]:
    """Around the imports of a command: a library that isn't installed is an error with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotReady(needs("this command", Extra.SPARK)) from error
    except ImportError as error:
        raise NotReady(str(error)) from error
