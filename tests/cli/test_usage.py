"""The command as a whole: what is asked for wrongly, how it ends, what it never prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import tenure
from tenure.domain.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from tenure.domain.store import Store
from tenure.engine.surface import Surface
from tenure.service.cli.main import COMMANDS
from tenure.stores import opening
from tenure.stores.sql.sqlite.file import SCHEMA
from tests.cli.kit import UNKNOWN, Cli, Shop
from tests.schemas import new_schema


def test_the_command_alone_shows_its_help(cli: Cli) -> None:
    assert cli.done().out == cli.done("--help").out


def test_version(cli: Cli) -> None:
    assert cli.done("version").out.startswith(f"tenure {tenure.__version__} (Python ")
    assert cli.json("version")["tenure"] == tenure.__version__


def test_rich_is_left_alone_where_there_is_no_terminal(shop: Shop) -> None:
    shop.enqueue()
    code = "import sys; from tenure.service.cli.main import main; main(['jobs']); print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert len(done.stdout.splitlines()) == 3
    assert done.stdout.splitlines()[-1] == "False"


def test_python_m_tenure() -> None:
    command = [sys.executable, "-m", "tenure", "version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("tenure ")


def test_help_names_every_command(cli: Cli) -> None:
    shown = cli.done("--help").out
    assert all(f"\n    {command}" in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    assert cli.done(command, "--help").out.startswith(f"usage: tenure {command} ")


@pytest.mark.parametrize(
    ("group", "actions"),
    [
        ("queues", ["list", "configure", "pause", "resume"]),
        ("dead-letters", ["list", "discard"]),
        ("schedules", ["list", "pause", "resume", "remove"]),
    ],
)
def test_every_action_has_help(cli: Cli, group: str, actions: list[str]) -> None:
    for action in actions:
        assert cli.done(group, action, "--help").out.startswith(f"usage: tenure {group} {action} ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["jobs", "--colour"], "unrecognized arguments: --colour"),
        (["jobs", "--lim", "3"], "unrecognized arguments: --lim"),
        (["jobs", "--limit", "0"], "give a whole number, 1 or more"),
        (["jobs", "--limit", "10001"], "limit 10001: give an integer from 1 to 10000"),
        (["jobs", "--state", "done"], "'done': give any of blocked, pending"),
        (["jobs", "--label", "team"], "'team': give NAME=VALUE"),
        (["jobs", "--tenant", "_system"], "names that start with _ belong to the store"),
        (["jobs", "--tenant", "a", "--all-tenants"], "not allowed with argument"),
        (["jobs", "nonsense"], "id 'nonsense': give a UUID"),
        (["jobs", UNKNOWN, "--queue", "mail"], "leave out the filter, or the ID"),
        (["cancel"], "which jobs? give an ID, a filter such as --queue, or --all"),
        (["cancel", UNKNOWN, "--all"], "a filter is for many jobs"),
        (["cancel", UNKNOWN, "--dry-run"], "--dry-run is for many jobs"),
        (["replay", UNKNOWN, "--rate", "5/s"], "--rate is for many jobs"),
        (["replay", "--all", "--rate", "fast"], "give a rate such as '100/s'"),
        (["replay", "--all", "--again"], "go with the ID of one job"),
        (["queues", "rename"], "invalid choice: 'rename' (choose from 'list', 'configure', 'pause', 'resume')"),
        (["queues", "configure", "mail"], "nothing to configure"),
        (["replay", "\udcff"], "give a UUID"),
        (["enqueue", "send", "--payload", "[" * 100_000], "is no JSON"),
        (["enqueue", "send", "--arg", f"to={'[' * 300_000}"], "bytes"),
        (["top", "--once", "--tenant", "\udcff"], "tenant"),
        (["top", "--interval", "0"], "interval 0: give 0.1 seconds or more"),
        (["top", "--interval", "nan"], "give a number of seconds"),
        (["worker"], "the following arguments are required: MODULE:APP"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_wrong(cli: Cli, shop: Shop, argv: list[str], said: str) -> None:
    shop.enqueue()
    ran = cli(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("url", "said", "code"),
    [
        ("jobs.db", "give memory://, sqlite:///path", 2),
        ("mysql://host/db", "no store is known for mysql://", 2),
        ("redis://host/0", "Tenure has no store for redis:// yet; the stores that are there: memory://, sqlite", 2),
        ("postgresql://127.0.0.1:1/db", "connection failed", 3),
        ("postgresql://127.0.0.1:1/db?schema=x'y", "schema", 2),
        ("sqlite:///", "name the file", 2),
        ("sqlite:////no/such/folder/jobs.db", "its folder doesn't exist", 3),
        ("sqlite:////proc/version", "", 3),
    ],
)
def test_a_bad_url(cli: Cli, url: str, said: str, code: int) -> None:
    ran = cli("jobs", "--url", url)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.startswith("tenure: ")
    assert len(ran.err.splitlines()) == 1


def test_no_url_at_all(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_URL")
    for argv, said in (
        (["jobs"], "no store is named: give --url, as in --url sqlite:///jobs.db, or --app, or set TENURE_URL"),
        (["doctor"], "no store is named: give --url"),
        (["jobs", "--app", "tests.cli.shop:app"], "tests.cli.shop:app names no store: give --url"),
    ):
        ran = cli(*argv)
        assert ran.code == 2
        assert said in ran.err
        assert "Tenure(" not in ran.err


def test_a_file_that_isnt_there_is_not_created_by_looking(cli: Cli, shop: Shop) -> None:
    for argv in (["jobs"], ["cancel", "--all"], ["queues"], ["workers"], ["top", "--once"], ["dead-letters"]):
        ran = cli(*argv)
        assert ran.code == 3
        assert "doesn't exist: check the URL, or create the store with: tenure migrate" in ran.err
    assert not shop.path.exists()


def test_a_schema_that_isnt_there_is_not_created_by_looking(
    cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_schema(postgres_url) as url:
        monkeypatch.setenv("TENURE_URL", url)
        for argv in (["jobs"], ["cancel", "--all"], ["queues"], ["workers"], ["top", "--once"], ["dead-letters"]):
            ran = cli(*argv)
            assert (ran.code, ran.out) == (3, "")
            assert "doesn't exist: check the URL, or create the store with: tenure migrate" in ran.err
        with psycopg.connect(postgres_url) as db:
            schema = url.rpartition("schema=")[2]
            assert db.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,)
        cli.done("migrate")
        assert "no jobs" in cli.done("jobs").err


def test_a_file_of_another_program(cli: Cli, shop: Shop) -> None:
    shop.path.write_text("not a database, but long enough to look like one " * 100)
    ran = cli("jobs")
    assert ran.code == 3
    assert "is not a SQLite file or is damaged" in ran.err


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:hunter2@host/db",
        "sqlite://me:hunter2@host/db",
        "mysql://host/db?sslpassword=hunter2",
        "postgresql://me:hunter2@host/db?schema=No",
        "mysql://me:hun%74er2@host/db?token=hunter2",
    ],
)
def test_passwords_are_never_printed(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for argv in (["jobs", "--url", url], ["doctor", "--url", url], ["jobs", "--url", url, "--debug"]):
        ran = cli(*argv)
        assert ran.code == 2
        assert "hunter2" not in ran.err
        assert "hun%74er2" not in ran.err
    monkeypatch.setenv("TENURE_URL", url)
    assert "hunter2" not in cli("jobs").err


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_a_password_that_an_error_quotes_is_hidden(cli: Cli, monkeypatch: pytest.MonkeyPatch, debug: list[str]) -> None:
    """Servers and drivers say more than they should."""

    def refuse(url: str) -> Store:
        raise StoreUnavailable(f"no login at {url} with hunter2")

    monkeypatch.setitem(opening._SCHEMES, "leaky", refuse)
    ran = cli("jobs", "--url", "leaky://me:hunter2@host", *debug)
    assert ran.code == 3
    assert "hunter2" not in ran.err
    assert ran.err.endswith("tenure: no login at leaky://me:…@host with …\n")
    monkeypatch.setenv("TENURE_URL", "leaky://me:hunter2@host")
    assert "hunter2" not in cli("jobs", *debug).err


def test_a_trace_only_with_debug(cli: Cli) -> None:
    assert "Traceback" not in cli("jobs", "--url", "jobs.db").err
    for argv in (["jobs", "--url", "jobs.db", "--debug"], ["--debug", "jobs", "--url", "jobs.db"]):
        ran = cli(*argv)
        assert ran.code == 2
        assert "Traceback" in ran.err


def test_a_malformed_setting_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_LEASE", "soon")
    ran = cli("migrate")
    assert ran.code == 2
    assert "TENURE_LEASE='soon'" in ran.err


def test_a_store_that_breaks_is_3(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()

    async def full(*_: object, **__: object) -> None:
        raise StoreFull("no room left")

    async def unknown(*_: object, **__: object) -> None:
        raise OutcomeUnknown((UNKNOWN,))

    monkeypatch.setattr(Surface, "send", full)
    ran = cli("enqueue", "send")
    assert (ran.code, ran.err) == (3, "tenure: no room left\n")
    monkeypatch.setattr(Surface, "send", unknown)
    ran = cli("enqueue", "send")
    assert ran.code == 3
    assert f"nobody knows whether it was done (jobs {UNKNOWN})" in ran.err


def test_interrupted_is_130(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue()

    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Surface, "send", interrupted)
    assert cli("enqueue", "send").code == 130


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_crash(shop: Shop, unbuffered: str) -> None:
    """The pipe is closed before the first byte is written."""
    shop.enqueue(3)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "jobs"],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_ascii_terminal_gets_question_marks_instead_of_a_crash(shop: Shop) -> None:
    shop.fail(1, "Straße nicht gefunden")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "jobs"], env=environment, capture_output=True, timeout=60, check=True
    )
    assert b"Refused: Stra?e nicht gefunden" in done.stdout


def test_memory_is_named_for_what_it_is(cli: Cli) -> None:
    ran = cli.done("enqueue", "send", "--url", "memory://")
    assert "memory:// is this command's own and ends with it" in ran.err
    assert len(ran.lines) == 1


def test_demo(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the way there; the demo has tests of its own."""
    given: list[list[str]] = []

    def demo(argv: list[str]) -> int:
        given.append(argv)
        return 7

    monkeypatch.setattr("tenure.demo.main", demo)
    assert cli("demo").code == 7
    assert cli("--debug", "demo", "--jobs", "50", "--plain").code == 7
    assert given == [[], ["--jobs", "50", "--plain"]]


def test_migrate(cli: Cli, shop: Shop) -> None:
    assert cli.done("migrate").out == f"schema {SCHEMA} at {shop.url}\n"
    assert cli.json("migrate") == {"schema": SCHEMA, "url": shop.url}
    assert shop.path.exists()


def test_json_is_one_document_and_messages_go_elsewhere(cli: Cli, shop: Shop) -> None:
    shop.enqueue(3)
    ran = cli.done("jobs", "--limit", "2", "--json")
    found, end = json.JSONDecoder().raw_decode(ran.out)
    assert ran.out[end:] == "\n"
    assert len(found["jobs"]) == 2
    assert ran.err == ""


def test_the_store_may_be_named_relative_to_the_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.done("migrate", "--url", "sqlite:///here.db")
    assert (tmp_path / "here.db").exists()
    cli.done("jobs", "--url", "sqlite:///here.db")
