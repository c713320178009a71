"""A Django project made for one test, and its processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import IO, Any, NamedTuple

SECONDS = 60

MANAGE = """
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")

from django.core.management import execute_from_command_line

execute_from_command_line(sys.argv)
"""

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "for tests alone"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["tenure.contrib.django", "shop"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "site.db"},
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "other.db"},
}
TENURE = {"APP": "mysite.jobs:app"}
"""

APP = """
from django.conf import settings

from tenure import Tenure

app = Tenure(f"sqlite:///{settings.BASE_DIR / 'jobs.db'}")
"""

COMMANDS = """
import contextlib
import io

from django.core.management import execute_from_command_line

ended = []
for argv in {commands}:
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            execute_from_command_line(["manage.py", *argv])
        except SystemExit as end:
            code = end.code or 0
    ended.append([code, printed.getvalue()])
print(json.dumps(ended))
"""

MODELS = """
from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
"""

JOBS = """
from shop.models import Order
from tenure import Jobs

jobs = Jobs()


@jobs.job(queue="mail")
def confirm(order: int) -> str:
    return f"confirmed to {Order.objects.get(pk=order).customer}"
"""


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    printed: str


class Site:
    """A project with one app, `shop`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path, text in {
            "manage.py": MANAGE,
            "mysite/__init__.py": "",
            "mysite/settings.py": SETTINGS,
            "mysite/jobs.py": APP,
            "shop/__init__.py": "",
            "shop/models.py": MODELS,
            "shop/jobs.py": JOBS,
        }.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> None:
        """A file of the project."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")

    def add(self, path: str, text: str) -> None:
        """More at the end of a file."""
        file = self.folder / path
        file.write_text(file.read_text(encoding="utf-8") + dedent(text), encoding="utf-8")

    def manage(self, *argv: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """`python manage.py …`, from the project's folder or another."""
        return self._run([str(self.folder / "manage.py"), *argv], folder or self.folder)

    def done(self, *argv: str) -> str:
        """What a command printed; it must have worked."""
        ran = self.manage(*argv)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def managed(self, *commands: list[str]) -> list[Ended]:
        """What manage.py makes of each, one after the other in one process."""
        return [Ended(*ended) for ended in self.run(COMMANDS.format(commands=list(commands)))]

    def run(self, program: str) -> Any:
        """What a program of the project prints, as JSON."""
        ran = self._run(["-c", f"import django\ndjango.setup()\nimport json\n{dedent(program)}"], self.folder)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    def _run(self, argv: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *argv],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What its processes are started with: nothing of the settings that the tests themselves may run under."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        return {**kept, "DJANGO_SETTINGS_MODULE": "mysite.settings", "PYTHONWARNINGS": "error"}

    @contextmanager
    def worker(self, *argv: str) -> Iterator[str]:
        """`manage.py tenure worker`, as soon as it has said what it serves; it must stop as well as it worked."""
        process = subprocess.Popen(
            [sys.executable, "manage.py", "tenure", "worker", "--log-level", "error", *argv],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield _line(process.stdout)
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            process.communicate()


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    line = stream.readline()
    assert line, "it ended"
    return line.rstrip()
