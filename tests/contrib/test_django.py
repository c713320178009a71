"""Tenure in a Django project: its settings, its jobs, its transactions, its connections and `manage.py tenure`."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tenure.stores.sql.sqlite.file import SCHEMA
from tests.contrib.kit import Site

pytest.importorskip("django")

UNMIGRATED = 'MIGRATION_MODULES = {"shop": None}\n'
UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a project after `migrate`."""
    made = Site(tmp_path_factory.mktemp("tables"))
    made.add("mysite/settings.py", UNMIGRATED)
    made.done("migrate", "--run-syncdb", "-v", "0", "--skip-checks")
    return made.folder / "site.db"


@pytest.fixture
def site(tables: Path, tmp_path: Path) -> Site:
    """A project with its tables."""
    made = Site(tmp_path)
    made.add("mysite/settings.py", UNMIGRATED)
    shutil.copy(tables, tmp_path)
    return made


@pytest.fixture
def bare(tmp_path: Path) -> Site:
    """A project without tables, for what needs none."""
    return Site(tmp_path)


# Settings


WRONG = {
    "None": "TENURE isn't set: give TENURE = ",
    "'mysite.jobs:app'": "TENURE is a str, not a dict: give TENURE = ",
    "{}": "TENURE: it is empty; give TENURE = ",
    "{'APP': 'mysite.jobs:app', 'URL': 'memory://'}": "TENURE: APP and URL exclude each other; give TENURE = ",
    "{'Url': 'memory://'}": "TENURE: there is no setting 'Url'; did you mean 'URL'?",
    "{'BROKER': 'memory://'}": "TENURE: there is no setting 'BROKER'; known are APP, DATABASE, URL",
    "{7: 'memory://'}": "TENURE: there is no setting 7; known are APP, DATABASE, URL",
    "{'DATABASE': 'main'}": "TENURE['DATABASE']: DATABASES has no 'main'; it has default, other",
    "{'APP': None}": "TENURE['APP'] is None: give TENURE = ",
    "{'APP': '.jobs:app'}": "TENURE['APP'] is '.jobs:app': give TENURE = ",
    "{'APP': ':app'}": "TENURE['APP'] is ':app': give TENURE = ",
    "{'APP': 'mysite.work:app'}": "TENURE['APP']: no module 'mysite.work' in ",
    "{'APP': 'mysite.jobs:queue'}": "TENURE['APP']: module 'mysite.jobs' has no 'queue': it has app",
    "{'APP': 'mysite.settings:USE_TZ'}": "TENURE['APP']: mysite.settings:USE_TZ is a bool, not a Tenure(...)",
    "{'URL': ''}": "TENURE['URL'] is '': give TENURE = ",
    "{'URL': 'jobs.db'}": "TENURE['URL']: url 'jobs.db': give memory://, sqlite:///path/to/jobs.db or postgresql://host/db",
    "{'URL': 'carrot://patch'}": "TENURE['URL']: url 'carrot://patch': no store is known for carrot://",
}


def test_a_wrong_setting_is_said_in_words(bare: Site) -> None:
    said = bare.run(
        f"""
        from django.core.exceptions import ImproperlyConfigured
        from django.test import override_settings
        from tenure.contrib.django.configuration import app_of

        said = {{}}
        for wrong in {list(WRONG)}:
            with override_settings(TENURE=eval(wrong)):
                try:
                    app_of()
                except ImproperlyConfigured as error:
                    said[wrong] = str(error)
        print(json.dumps(said))
        """
    )
    assert said.keys() == WRONG.keys()
    for wrong, text in WRONG.items():
        assert said[wrong].startswith(text), wrong


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("del TENURE", "TENURE isn't set: give TENURE = "),
        ("INSTALLED_APPS = ['shop']", "add 'tenure.contrib.django' to INSTALLED_APPS"),
    ],
)
def test_a_wrong_setting_keeps_django_from_starting(bare: Site, setting: str, said: str) -> None:
    bare.add("mysite/settings.py", f"{setting}\n")
    bare.write("shop/apps.py", STARTS)
    ran = bare.manage("check")
    assert ran.returncode != 0
    assert ran.stderr.strip().splitlines()[-1].startswith(f"django.core.exceptions.ImproperlyConfigured: {said}")


STARTS = """
from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"

    def ready(self) -> None:
        from tenure.contrib.django import get_app

        get_app()
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("TENURE = {'URL': 'memory://'}", "(tenure.W001) Jobs live in this process alone: no worker sees them."),
        ("TENURE = {'URL': 'sqlite:///jobs.db'}", "(tenure.W002) The jobs' file, jobs.db, is looked for in whatever"),
        ("INSTALLED_APPS = ['tenure.contrib.django']", "(tenure.W003) No jobs are declared."),
        ("TENURE = {'APP': 'mysite.empty:app'}", "(tenure.E001) Tenure has no store: no store: give Tenure("),
    ],
)
def test_system_checks(bare: Site, change: str, said: str) -> None:
    bare.write("mysite/empty.py", "from tenure import Tenure\n\napp = Tenure()\n")
    bare.add("mysite/settings.py", f"{change}\n")
    ran = bare.manage("check", "--fail-level", "WARNING")
    assert ran.returncode == 1
    assert said in ran.stderr
    assert "System check identified 1 issue" in ran.stderr


def test_a_project_in_order_has_nothing_to_check(bare: Site) -> None:
    assert "System check identified no issues" in bare.manage("check", "--fail-level", "WARNING").stdout


def test_without_django_the_extra_is_named_and_the_rest_works() -> None:
    program = (
        "import sys; sys.modules['django'] = None\n"
        "import tenure.contrib, tenure.service.cli.main, tenure.engine.app\n"
        "try:\n    import tenure.contrib.django\nexcept ImportError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "tenure.contrib.django needs the extra 'django': pip install 'tenure[django]'\n"


# Finding jobs

NAMES = """
from tenure.contrib.django import get_app

app = get_app()
print(json.dumps({name: app.definitions[name].app is app for name in sorted(app.definitions)}))
"""


def test_jobs_of_every_installed_app_are_found(bare: Site) -> None:
    bare.add("mysite/settings.py", "INSTALLED_APPS += ['stock', 'quiet', 'again']\n")
    bare.write("stock/__init__.py", "")
    bare.write(
        "stock/jobs.py",
        """
        from mysite.jobs import app

        @app.job
        def count() -> int:
            return 1
        """,
    )
    bare.write("quiet/__init__.py", "")  # an app without jobs
    bare.write("again/__init__.py", "")
    bare.write("again/jobs.py", "from shop.jobs import jobs\n")  # the same once more
    assert bare.run(NAMES) == {"confirm": True, "count": True}


def test_jobs_that_the_project_included_itself_are_left_alone(bare: Site) -> None:
    bare.add("mysite/jobs.py", "\nfrom shop.jobs import jobs\n\napp.include(jobs)\n")
    assert bare.run(NAMES) == {"confirm": True}


def test_a_url_is_enough(bare: Site) -> None:
    bare.add("mysite/settings.py", "TENURE = {'URL': f\"sqlite:///{BASE_DIR / 'mine.db'}\"}\n")
    assert bare.run(NAMES) == {"confirm": True}
    bare.run("from shop.jobs import confirm\nprint(json.dumps(confirm.sync.enqueue(1).created))")
    assert (bare.folder / "mine.db").exists()


def test_django_may_start_its_apps_twice(bare: Site) -> None:
    again = """
from django.test import override_settings

with override_settings(INSTALLED_APPS=["tenure.contrib.django", "shop"]):
    pass
"""
    for setting in ("", "TENURE = {'URL': 'memory://'}\n"):
        bare.add("mysite/settings.py", setting)
        assert bare.run(again + NAMES) == {"confirm": True}


def test_a_job_that_is_declared_twice_is_an_error_that_names_the_module(bare: Site) -> None:
    bare.add("mysite/settings.py", "INSTALLED_APPS += ['stock']\n")
    bare.write("stock/__init__.py", "")
    bare.write("stock/jobs.py", "from tenure import Jobs\n\njobs = Jobs()\n\n@jobs.job\ndef confirm() -> None: ...\n")
    ran = bare.manage("check")
    assert "ImproperlyConfigured: stock.jobs: job confirm is declared twice" in ran.stderr


def test_a_jobs_module_that_breaks_is_not_passed_over(bare: Site) -> None:
    bare.add("shop/jobs.py", "import no_such_module\n")
    assert "ModuleNotFoundError: No module named 'no_such_module'" in bare.manage("check").stderr


# Transactions

COMMITS = """
from django.db import transaction
from shop.jobs import confirm
from shop.models import Order
from tenure.contrib.django import get_app, on_commit

app = get_app()


class Stop(Exception):
    pass


def waiting():
    return sorted(job.payload["order"] for job in app.sync.jobs())
"""


def test_a_job_goes_out_with_the_commit_and_not_before(site: Site) -> None:
    seen = site.run(
        COMMITS
        + """
with transaction.atomic():
    order = Order.objects.create(customer="Ann")
    on_commit(confirm.build(order.pk))
    inside = waiting()
print(json.dumps([order.pk, inside, waiting()]))
"""
    )
    assert seen == [1, [], [1]]


def test_what_is_rolled_back_is_never_enqueued(site: Site) -> None:
    seen = site.run(
        COMMITS
        + """
try:
    with transaction.atomic():
        on_commit(confirm.build(1))
        raise Stop
except Stop:
    pass
with transaction.atomic():
    on_commit(confirm.build(2))
    try:
        with transaction.atomic():
            on_commit(confirm.build(3))
            raise Stop
    except Stop:
        pass
print(json.dumps(waiting()))
"""
    )
    assert seen == [2]


def test_outside_a_transaction_it_goes_out_at_once(site: Site) -> None:
    assert site.run(COMMITS + "on_commit(confirm.build(1))\nprint(json.dumps(waiting()))") == [1]


def test_each_database_has_its_own_transactions(site: Site) -> None:
    seen = site.run(
        COMMITS
        + """
with transaction.atomic(using="other"):
    on_commit(confirm.build(1))
    on_commit(confirm.build(2), using="other")
    inside = waiting()
print(json.dumps([inside, waiting()]))
"""
    )
    assert seen == [[1], [1, 2]]


def test_what_no_store_would_take_is_refused_inside_the_transaction(site: Site) -> None:
    """A wrong argument raises where it is given, so that the rows go with it."""
    seen = site.run(
        COMMITS
        + """
from django.db import connection
from tenure import InvalidValue

said = []
for wrong in (
    lambda: confirm.build("seven"),
    lambda: confirm.options(priority=1_000).build(7),
    lambda: confirm.options(tenant="_system").build(7),
    lambda: confirm.options(connection=connection).build(7),
):
    try:
        with transaction.atomic():
            Order.objects.create(customer="Ann")
            on_commit(wrong())
    except InvalidValue as error:
        said.append(str(error))
print(json.dumps([said, Order.objects.count(), waiting()]))
"""
    )
    said, orders, jobs = seen
    begins = ("confirm(): ", "job confirm: priority 1000", "job confirm: tenant '_system'", "on_commit(): ")
    assert [text[: len(begin)] for text, begin in zip(said, begins, strict=True)] == list(begins)
    assert (orders, jobs) == (0, [])


def test_a_store_that_refuses_after_the_commit_is_heard_of(site: Site) -> None:
    """The rows stay. The error comes out of the block; a robust one is logged, and the next one still goes out."""
    seen = site.run(
        COMMITS
        + """
import logging
from tenure import QueueFull

logging.disable(logging.CRITICAL)
app.sync.queue("mail").configure(max_depth=1)
confirm.sync.enqueue(1)
came = []
try:
    with transaction.atomic():
        Order.objects.create(customer="Ann")
        on_commit(confirm.build(2))
except QueueFull:
    came.append("raised")
with transaction.atomic():
    Order.objects.create(customer="Bob")
    on_commit(confirm.build(3), robust=True)
    on_commit(confirm.options(queue="other").build(4))
print(json.dumps([came, Order.objects.count(), waiting()]))
"""
    )
    assert seen == [["raised"], 2, [1, 4]]


def test_a_handlers_job_is_of_its_tenant(site: Site) -> None:
    site.add(
        "shop/jobs.py",
        """
        from django.db import transaction

        from tenure.contrib.django import on_commit


        @jobs.job
        def order(customer: str) -> None:
            with transaction.atomic():
                on_commit(confirm.build(Order.objects.create(customer=customer).pk))
        """,
    )
    seen = site.run(
        """
        from shop.jobs import order
        from tenure.contrib.django import get_app
        from tenure.testing.sandbox import sandbox

        with sandbox(get_app()) as queue:
            get_app().sync.tenant("acme").enqueue(order.build("Ann"))
            queue.drain()
            print(json.dumps([[job.tenant, job.job_type] for job in queue.jobs()]))
        """
    )
    assert seen == [["acme", "order"], ["acme", "confirm"]]


def test_in_the_same_file_rows_and_job_are_one_transaction(bare: Site) -> None:
    """The queue's file comes first; Django's tables go into it."""
    bare.add(
        "mysite/settings.py",
        """
        MIGRATION_MODULES = {"shop": None}
        DATABASES["default"]["NAME"] = BASE_DIR / "jobs.db"
        import django

        if django.VERSION >= (5, 1):
            DATABASES["default"]["OPTIONS"] = {"transaction_mode": "IMMEDIATE"}
        """,
    )
    bare.done("tenure", "migrate")
    bare.done("migrate", "--run-syncdb", "-v", "0")
    seen = bare.run(
        COMMITS
        + """
from django.db import connection

for customer in ("Ann", "Bob"):
    try:
        with transaction.atomic():
            order = Order.objects.create(customer=customer)
            confirm.sync.options(connection=connection).enqueue(order.pk)
            if customer == "Bob":
                raise Stop
    except Stop:
        pass
print(json.dumps([[order.customer for order in Order.objects.all()], waiting()]))
"""
    )
    assert seen == [["Ann"], [1]]


# Connections

WORK = """
import os
import threading

from asgiref.sync import sync_to_async
from django.db import connection, connections
from shop.models import Order
from tenure import Jobs

jobs = Jobs()
left = []


def look() -> dict:
    \"\"\"Whether a connection was open already, then one that is.\"\"\"
    was_open = connection.connection is not None
    Order.objects.count()
    return {"was_open": was_open, "thread": threading.get_ident(), "pid": os.getpid()}


@jobs.job
def plain() -> dict:
    return look()


@jobs.job
def outer() -> bool:
    look()
    before = connection.connection
    plain()
    return connection.connection is before


@jobs.job
def nested() -> list:
    from tenure.contrib.django import get_app

    return [get_app().sync.execute_now(plain.build())["was_open"] for _ in range(2)]


@jobs.job
async def coroutine() -> dict:
    seen = await sync_to_async(look)()
    await Order.objects.acount()
    seen["same"] = await sync_to_async(threading.get_ident)() == seen["thread"]
    seen["left_open"] = [one.connection is not None for one in left]
    left.append(await sync_to_async(lambda: connections["default"])())
    return seen


@jobs.job(executor="process")
def apart() -> dict:
    return look()


@jobs.job(executor="process")
async def apart_async() -> dict:
    return await sync_to_async(look)()
"""

TWICE = """
from shop.jobs import {job}

print(json.dumps([{job}.sync.call() for _ in range(2)]))
"""


def test_a_worker_renews_its_handlers_connections(site: Site) -> None:
    site.write("shop/jobs.py", WORK)
    with site.worker("--concurrency", "1", "--name", "north") as said:
        assert said == f"worker north serves default at sqlite:///{site.folder / 'jobs.db'}"
        first, second = site.run(TWICE.format(job="plain"))
        assert first["thread"] == second["thread"]
        assert not second["was_open"]

        assert site.run(TWICE.format(job="outer")) == [True, True]
        assert site.run(TWICE.format(job="nested")) == [[False, False]] * 2

        first, second = site.run(TWICE.format(job="coroutine"))
        assert first["same"]
        assert (first["left_open"], second["left_open"]) == ([], [False])

        for job in ("apart", "apart_async"):
            inside, after = site.run(TWICE.format(job=job))
            assert inside["pid"] == after["pid"] != first["pid"]
            assert not after["was_open"]


def test_a_connection_that_may_live_on_does(site: Site) -> None:
    site.write("shop/jobs.py", WORK)
    site.add("mysite/settings.py", "DATABASES['default']['CONN_MAX_AGE'] = None\n")
    with site.worker("--concurrency", "1"):
        first, second = site.run(TWICE.format(job="plain"))
        assert (first["was_open"], second["was_open"]) == (False, True)


def test_who_calls_the_function_itself_keeps_their_connection(site: Site) -> None:
    site.write("shop/jobs.py", WORK)
    seen = site.run(
        """
        from django.db import connection
        from shop.jobs import look, plain
        from tenure.contrib.django import get_app

        look()
        before = connection.connection
        plain()
        kept = connection.connection is before
        print(json.dumps([kept, get_app().sync.execute_now(plain.build())["was_open"]]))
        """
    )
    assert seen == [True, False]


# manage.py


def test_manage_py_runs_every_kind_of_command(site: Site, tmp_path: Path) -> None:
    site.run("from shop.models import Order\nOrder.objects.create(customer='Ann')\nprint(1)")
    with site.worker():
        said = site.done("tenure", "enqueue", "confirm", "--arg", "order=1", "--wait", "30", "--json")
        enqueued = json.loads(said)
        assert enqueued["result"] == "confirmed to Ann"
    commands = ["jobs", "--json"], ["queues"], ["doctor"], ["version"], ["worker", "-h"]
    ended = site.managed(*(["tenure", *command] for command in commands))
    assert {one.code for one in ended} == {0}
    listed, queues, doctor, version, usage = (one.printed for one in ended)
    assert [job["id"] for job in json.loads(listed)["jobs"]] == [enqueued["id"]]
    assert queues.splitlines()[0].startswith("queue ")
    assert "reachable" in doctor
    assert version.startswith("tenure ")
    assert "--concurrency" in usage


def test_exit_codes_are_those_of_the_command(bare: Site) -> None:
    nowhere = "sqlite:////no/such/folder/jobs.db"
    wrong = ["jobs", UNKNOWN], ["jobs", "--no-such-option"], ["no-such-command"], ["jobs", "--url", nowhere]
    ended = bare.managed(*(["tenure", *command] for command in (["migrate"], *wrong)))
    assert [one.code for one in ended] == [0, 1, 2, 2, 3]
    assert bare.manage("tenure", "jobs", UNKNOWN).returncode == 1


def test_another_app_may_be_named(bare: Site) -> None:
    bare.write("mysite/other.py", "from tenure import Tenure\n\napp = Tenure('sqlite:///other-jobs.db')\n")
    named = ["--app", "mysite.other:app"], ["--app=mysite.other:app"]
    for ended in bare.managed(*(["tenure", "migrate", *app] for app in named)):
        assert ended.code == 0
        assert "other-jobs.db" in ended.printed


def test_other_ways_to_the_same_app(bare: Site) -> None:
    """Django's own options stand before the command, and the app has a name for `tenure` itself."""
    there = f"schema {SCHEMA} at sqlite:///{bare.folder / 'jobs.db'}\n"
    assert bare.done("tenure", "--settings", "mysite.settings", "migrate") == there
    argv = [sys.executable, "-m", "tenure", "migrate", "--app", "tenure.contrib.django.project:app"]
    ran = subprocess.run(argv, cwd=bare.folder, env=bare.environment, capture_output=True, text=True, check=True)
    assert ran.stdout == there


def test_a_worker_finds_the_project_from_any_folder(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    site.write("shop/jobs.py", WORK)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    process = subprocess.Popen(
        [sys.executable, str(site.folder / "manage.py"), "tenure", "worker", "--log-level", "error"],
        cwd=elsewhere,
        env=site.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("worker ")
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


# Tests of a project

TESTS = """
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from shop.jobs import confirm, count
from shop.models import Order
from tenure.contrib.django import get_app, on_commit
from tenure.testing.sandbox import sandbox


def buy(customer):
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        on_commit(confirm.build(order.pk))
    return order


class Bought(TestCase):
    def test_a_job_is_enqueued(self):
        with sandbox(get_app()) as queue:
            with self.captureOnCommitCallbacks(execute=True):
                order = buy("Ann")
            queue.assert_enqueued(confirm, order=order.pk)

    def test_the_function_itself(self):
        self.assertEqual(confirm(buy("Ann").pk), "confirmed to Ann")

    async def test_async(self):
        with sandbox(get_app()) as queue:
            await count.enqueue()
            assert await queue.drain_async() == 1
            assert [job.state for job in await queue.jobs_async()] == ["succeeded"]
            assert await Order.objects.acount() == 0


class Worked(TransactionTestCase):
    def test_a_job_runs(self):
        with sandbox(get_app()) as queue:
            buy("Ann")
            self.assertEqual(queue.drain(), 1)
            self.assertEqual([job.state for job in queue.jobs()], ["succeeded"])
"""


def test_a_projects_own_tests(bare: Site) -> None:
    bare.add(
        "mysite/settings.py",
        """
        MIGRATION_MODULES = {"shop": None}
        DATABASES = {"default": {**DATABASES["default"], "TEST": {"NAME": BASE_DIR / "test.db"}}}
        """,
    )
    bare.add("shop/jobs.py", "\n\n@jobs.job\nasync def count() -> int:\n    return await Order.objects.acount()\n")
    bare.write("shop/tests.py", TESTS)
    ran = bare.manage("test", "-v", "2")
    assert ran.returncode == 0, ran.stderr
    assert "Ran 4 tests" in ran.stderr
    assert not (bare.folder / "jobs.db").exists()


# Jobs in a database of the project

WHERE = """
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from shop.jobs import confirm
from shop.models import Order
from tenure.contrib.django import get_app, on_commit


def waiting():
    return [job.payload["order"] for job in get_app().sync.jobs()]


class Where:
    def test_jobs_are_where_the_rows_are(self):
        assert get_app().url.endswith({ends}), get_app().url


class Whole(Where, TransactionTestCase):
    def test_a_job_of_its_own(self):
        before = waiting()
        confirm.sync.enqueue(1)
        assert waiting() == [1, *before]

    def test_after_the_commit(self):
        before = waiting()
        with transaction.atomic():
            on_commit(confirm.build(2))
        assert waiting() == [2, *before]

    async def test_async(self):
        handle = await confirm.enqueue(3)
        assert (await handle.get()).state == "pending"


class Whole2(Whole):
    pass


class Rolled(Where, TestCase):
    pass
"""
JOINED = """
    def test_in_the_transaction(self):
        before = waiting()
        confirm.sync.options(connection=connection).enqueue(4)
        assert waiting() == before
"""
"""Of a `TestCase`: its transaction is rolled back, and the job with it."""


def run_tests_of(site: Site, tests: str, *argv: str) -> str:
    """What `manage.py test` said; it passed."""
    site.write("shop/tests.py", tests)
    ran = site.manage("test", "--noinput", *argv)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def on_default(site: Site, database: str) -> None:
    site.add(
        "mysite/settings.py",
        f"""
        MIGRATION_MODULES = {{"shop": None}}
        TENURE = {{"DATABASE": "default"}}
        DATABASES = {{"default": {database}}}
        """,
    )


IN_MEMORY = '{"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "site.db"}'
IN_FILE = IN_MEMORY[:-1] + ', "TEST": {"NAME": BASE_DIR / "test.db"}}'


@pytest.mark.parametrize("argv", [[], ["--parallel", "2"]])
def test_tests_on_a_file_leave_the_real_one_alone(bare: Site, argv: list[str]) -> None:
    on_default(bare, IN_FILE)
    ends = "('/test.db', '/test_1.db', '/test_2.db')"
    assert "Ran 10 tests" in run_tests_of(bare, WHERE.format(ends=ends) + JOINED, *argv)
    assert not (bare.folder / "site.db").exists()


def test_tests_in_memory_have_their_jobs_there(bare: Site) -> None:
    on_default(bare, IN_MEMORY)
    assert "Ran 9 tests" in run_tests_of(bare, WHERE.format(ends="'memory://'"), "--parallel", "2")
    assert not (bare.folder / "site.db").exists()


def test_migrate_makes_a_file_for_both(bare: Site) -> None:
    on_default(bare, IN_FILE)
    for _ in range(2):
        bare.done("migrate", "--run-syncdb", "-v", "0")
    seen = bare.run(
        COMMITS
        + """
from django.db import connection

with transaction.atomic():
    order = Order.objects.create(customer="Ann")
    confirm.sync.options(connection=connection).enqueue(order.pk)
print(json.dumps([waiting(), app.url]))
"""
    )
    assert seen == [[1], f"sqlite:///{bare.folder / 'site.db'}"]


def test_a_file_that_django_made_before_is_left_alone(bare: Site) -> None:
    bare.add("mysite/settings.py", UNMIGRATED)
    bare.done("migrate", "--run-syncdb", "-v", "0")
    bare.add("mysite/settings.py", "TENURE = {'DATABASE': 'default'}\n")
    ran = bare.manage("migrate", "--run-syncdb")
    assert ran.returncode == 1
    assert re.search(r"CommandError: TENURE\['DATABASE'\]: .*site\.db is a SQLite file of another program", ran.stderr)


@pytest.fixture
def database(postgres_url: str) -> Iterator[dict[str, Any]]:
    """A new database on the server, as Django's settings have it."""
    name = f"site_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        info = server.info
        address = {"USER": info.user, "PASSWORD": info.password, "HOST": info.host, "PORT": info.port}
        yield {"ENGINE": "django.db.backends.postgresql", "NAME": name, **address}
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("argv", [[], ["--parallel", "2"]])
def test_tests_on_a_server_leave_the_real_database_alone(
    bare: Site, database: dict[str, Any], postgres_url: str, argv: list[str]
) -> None:
    name = database["NAME"]
    on_default(bare, repr(database))
    ends = f"('/test_{name}', '/test_{name}_1', '/test_{name}_2')"
    assert "Ran 10 tests" in run_tests_of(bare, WHERE.format(ends=ends) + JOINED, *argv)
    with psycopg.connect(postgres_url) as server:
        left = server.execute("SELECT datname FROM pg_database WHERE strpos(datname, %s) > 0", (name,))
        assert left.fetchall() == [(name,)]
    with psycopg.connect(postgres_url, dbname=name) as real:
        assert real.execute("SELECT to_regclass('tenure.job')").fetchone() == (None,)


def test_a_servers_address_is_djangos(bare: Site) -> None:
    own = {"sslmode": "require", "pool": True, "isolation_level": 3}
    given = [
        {"USER": "a@b", "PASSWORD": "p:w/d?", "HOST": "::1", "PORT": "6432", "OPTIONS": own},
        {"USER": "ann"},
        {"HOST": "/var/run/postgresql", "PASSWORD": "x y"},
    ]
    urls = bare.run(
        f"""
        from tenure.contrib.django.databases import postgres_url

        whole = {{"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {{}}, "NAME": "sh op"}}
        print(json.dumps([postgres_url("default", whole | more) for more in {given!r}]))
        """
    )
    assert [conninfo_to_dict(url) for url in urls] == [
        {"dbname": "sh op", "user": "a@b", "password": "p:w/d?", "host": "::1", "port": "6432", "sslmode": "require"},
        {"dbname": "sh op", "user": "ann"},
        {"dbname": "sh op", "host": "/var/run/postgresql", "password": "x y"},
    ]


# The guide

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "django.md"
FILE = re.compile(r"^```py\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

URLS = """
from django.urls import path
from shop.views import buy

urlpatterns = [path("buy", buy, name="buy")]
"""


@pytest.fixture
def guided(tmp_path: Path) -> Site:
    """The project of the guide: its files, in a project like any other."""
    files = dict(FILE.findall(GUIDE.read_text(encoding="utf-8")))
    assert files.keys() == {"mysite/settings.py", "shop/jobs.py", "shop/views.py", "shop/tests.py"}
    made = Site(tmp_path)
    made.add("mysite/settings.py", "INSTALLED_APPS = ['shop']\ndel TENURE\n" + files.pop("mysite/settings.py"))
    made.add(
        "mysite/settings.py",
        """
        MIGRATION_MODULES = {"shop": None}
        ROOT_URLCONF = "mysite.urls"
        ALLOWED_HOSTS = ["testserver"]
        MAILERS = {"default": {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}}
        import django

        if django.VERSION < (6, 1):
            EMAIL_BACKEND = MAILERS["default"]["BACKEND"]
        DATABASES.pop("other")
        """,
    )
    made.write("mysite/urls.py", URLS)
    for path, text in files.items():
        made.write(path, text)
    return made


def test_the_guides_project_works(guided: Site) -> None:
    guided.done("migrate", "--run-syncdb", "-v", "0")
    with guided.worker():
        seen = guided.run(
            """
            from django.test import Client
            from tenure.contrib.django import get_app

            answer = Client().post("/buy", {"email": "ann@example.org"})
            (job,) = get_app().sync.jobs()
            print(json.dumps([answer.status_code, get_app().sync.handle(job.id).result(timeout=30)]))
            """
        )
    assert seen == [201, "confirmed to ann@example.org"]


def test_the_guides_tests_pass(guided: Site) -> None:
    ran = guided.manage("test")
    assert ran.returncode == 0, ran.stderr
    assert "Ran 3 tests" in ran.stderr


def test_the_guides_checks_are_those_that_there_are() -> None:
    source = (GUIDE.parents[2] / "src/tenure/contrib/django/checks.py").read_text(encoding="utf-8")
    told = set(re.findall(r"tenure\.[EW]\d{3}", GUIDE.read_text(encoding="utf-8")))
    assert told == set(re.findall(r"tenure\.[EW]\d{3}", source))
