"""Finding an app by its name, `module:attribute`, here and in child processes."""

import importlib
import os
import sys

from tenure.domain.errors import NotReady
from tenure.engine.app import Tenure

PATH = "PYTHONPATH"


def environment() -> dict[str, str]:
    """The environment of a child that imports from wherever this process does."""
    return {**os.environ, PATH: os.pathsep.join(path or os.getcwd() for path in sys.path)}


def import_app(target: str) -> Tenure:
    """The app that MODULE:APP names, from the current folder or whatever is installed."""
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "app"
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise NotReady(f"no module {module_name!r} in {folder} or among what is installed") from None
        raise NotReady(f"module {module_name!r} needs {error.name!r}, which isn't installed") from error
    except Exception as error:
        raise NotReady(f"module {module_name!r} broke when it was imported: {type(error).__name__}: {error}") from error
    found = getattr(module, attribute, None)
    if found is None:
        known = [name for name, value in vars(module).items() if isinstance(value, Tenure)]
        hint = f"it has {', '.join(known)}" if known else "it has no Tenure(...) at all"
        raise NotReady(f"module {module_name!r} has no {attribute!r}: {hint}")
    if not isinstance(found, Tenure):
        raise NotReady(f"{module_name}:{attribute} is a {type(found).__name__}, not a Tenure(...)")
    return found
