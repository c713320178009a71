"""`tenure worker`: its options, and a real process that is told to stop."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from tenure import Tenure
from tenure.service.cli.worker import WorkerRun, limits
from tenure.testing.proxy import FaultProxy
from tests.cli.kit import Cli, Shop
from tests.processes import children_of

APP = "tests.cli.shop:app"
ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 30


class Process:
    """A worker's process and what it says."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next line on stdout."""
        return _line(self._process.stdout)

    def error(self) -> str:
        """The next line on stderr."""
        return _line(self._process.stderr)

    def told(self, text: str) -> None:
        """Reads stderr until it says so."""
        while text not in _line(self._process.stderr):
            pass

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        return self._process.wait(SECONDS)


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    line = stream.readline()
    assert line, "it ended"
    return line.rstrip()


@contextmanager
def worker(*argv: str, **environment: str) -> Iterator[Process]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "worker", *argv],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate()


def result(shop: Shop, id: str) -> Any:
    async def wait(app: Tenure) -> Any:
        return await app.handle(id).result(timeout=SECONDS)

    return shop.use(wait)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_works_until_a_signal(shop: Shop, number: signal.Signals) -> None:
    with worker(APP, "--queues", "mail,slow=2", "--concurrency", "7", "--name", "north") as process:
        assert process.line() == f"worker north serves mail=7, slow=2 at {shop.url}"
        (id,) = shop.enqueue()
        assert result(shop, id) == "a@b.example × 1"
        assert shop.get(id).history[0].worker == "north"
        process.signal(number)
        process.told("stopping; a second signal doesn't wait for the jobs")
        process.told("worker north stopped")
        assert process.ended() == 0


def test_a_second_signal_doesnt_wait_for_the_jobs(shop: Shop) -> None:
    """The job goes back to its queue at once, its attempt refunded, long before the grace is over."""
    (id,) = shop.enqueue(job_type="hold")
    with worker(APP, TENURE_SHUTDOWN_GRACE="3600") as process:
        process.line()
        assert process.line() == f"holding {id}"
        process.signal(signal.SIGTERM)
        process.told("stopping;")
        assert shop.get(id).state == "running"
        process.signal(signal.SIGTERM)
        process.told("stopping at once")
        assert process.ended() == 130
    job = shop.get(id)
    assert (job.state, job.attempt, job.history[-1].outcome) == ("pending", 0, "released")


def test_a_second_signal_is_heard_by_a_process_that_hasnt_come_to_the_first(shop: Shop) -> None:
    """Two signals of one kind that are both on their way are one."""
    (id,) = shop.enqueue(job_type="hold")
    with worker(APP, TENURE_SHUTDOWN_GRACE="3600") as process:
        process.line()
        assert process.line() == f"holding {id}"
        (child,) = children_of(process.pid)
        os.kill(child, signal.SIGSTOP)
        for told in ("stopping;", "stopping at once"):
            process.signal(signal.SIGTERM)
            process.told(told)
        os.kill(child, signal.SIGCONT)
        assert process.ended() == 130
    assert shop.get(id).state == "pending"


def test_json_and_a_url_for_an_app_that_leaves_it_open(shop: Shop) -> None:
    environment = {"TENURE_URL": "", "PYTHONUNBUFFERED": ""}
    with worker(APP, "--url", shop.url, "--processes", "2", "--json", "--name", "north", **environment) as process:
        started = sorted((json.loads(process.line()) for _ in range(2)), key=lambda one: str(one["worker"]))
        assert started == [
            {"worker": name, "queues": {"mail": None, "slow": None}, "concurrency": 100, "url": shop.url}
            for name in ("north.1", "north.2")
        ]
        process.signal(signal.SIGTERM)
        assert process.ended() == 0


def test_one_format_for_the_logs_of_all_its_processes(shop: Shop) -> None:
    """`--json` is for what the command says, not for its logs."""
    line = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO   ) tenure\.(supervisor|worker): .+")
    with worker(APP, "--json", "--name", "north") as process:
        said = [process.error(), process.error()]
        assert {found[2] for one in said if (found := line.fullmatch(one))} == {"supervisor", "worker"}, said


def test_a_worker_waits_for_a_server_that_is_away(shop: Shop, postgres_url: str) -> None:
    """Any other command says so, and ends."""
    parts = urlsplit(postgres_url)
    with FaultProxy(parts.port or 5432) as proxy, ExitStack() as refusing:
        refusing.enter_context(proxy.refusing())
        url = postgres_url.replace(f":{parts.port}", f":{proxy.port}") + "?schema=waited_for"
        environment = {**os.environ, "TENURE_URL": url}
        command = [sys.executable, "-m", "tenure", "jobs"]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
        assert (ended.returncode, ended.stderr.count("postgresql://")) == (3, 1)
        with worker(APP, "--name", "north", TENURE_URL=url) as process:
            process.told("WARNING tenure.worker: the worker waits for its store and tries it at least every 5 s")
            refusing.close()
            process.told("INFO    tenure.worker: the store is there")
            assert process.line().startswith("worker north serves ")
            process.signal(signal.SIGTERM)
            assert process.ended() == 0


def test_a_worker_doesnt_wait_for_a_database_that_isnt_there(shop: Shop, postgres_url: str) -> None:
    with worker(APP, TENURE_URL=urlsplit(postgres_url)._replace(path="/nowhere").geturl()) as process:
        process.told('database "nowhere" does not exist')
        assert process.ended() == 3


def test_a_worker_whose_store_is_gone_is_3(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "sqlite:////no/such/folder/jobs.db")
    ran = cli("worker", APP)
    assert ran.code == 3
    assert "its folder doesn't exist" in ran.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--queues", "mail,,slow"], "give names with commas between them"),
        (["--queues", "mail=0"], "give a whole number, 1 or more"),
        (["--queues", "mail,mail=2"], "'mail' is named twice"),
        (["--queues", "a b"], "give 1 to 64 of"),
        (["--concurrency", "2000"], "give an integer from 1 to 1000"),
        (["--processes", "0"], "give a whole number, 1 or more"),
        (["--lease", "0"], "lease 0.0: give 0.05 to 86400 seconds"),
        (["--name", "a b"], "give 1 to 64 of"),
        (["--tenants", "_system"], "belong to the store"),
        (["--log-level", "loud"], "invalid choice: 'loud'"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, argv: list[str], said: str) -> None:
    ran = cli("worker", APP, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_an_app_without_jobs_or_without_a_store(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cli_jobless.py").write_text("from tenure import Tenure\napp = Tenure()")
    monkeypatch.chdir(tmp_path)
    assert "the app has no jobs" in cli("worker", "cli_jobless:app").err
    monkeypatch.delenv("TENURE_URL")
    ran = cli("worker", APP)
    assert ran.code == 2
    assert f"{APP} names no store: give --url" in ran.err


def test_an_app_with_a_store_of_its_own_keeps_it(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli_stubborn.py").write_text("from tenure import Tenure\napp = Tenure('sqlite:///mine.db')")
    monkeypatch.chdir(tmp_path)
    ran = cli("worker", "cli_stubborn:app", "--url", shop.url)
    assert ran.code == 2
    assert "has a store of its own (sqlite:///mine.db): leave out --url" in ran.err


def test_a_queue_that_no_job_type_uses_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.service.cli.worker.run_worker", lambda app, options: 0)
    said = f"tenure: no job type of {APP} uses queue 'mial'; its own are mail, slow\n"
    assert cli.done("worker", APP, "--queues", "mial,mail=2").err == said
    assert cli.done("worker", APP, "--queues", "mail").err == ""


def test_every_option_arrives(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[WorkerRun] = []

    def run_worker(app: Tenure, options: WorkerRun) -> int:
        runs.append(options)
        return 0

    monkeypatch.setattr("tenure.service.cli.worker.run_worker", run_worker)
    cli.done("worker", APP)
    cli.done(
        "worker",
        APP,
        *("--queues", "mail,slow=2", "--concurrency", "7", "--processes", "3", "--lease", "30", "--grace", "2.5"),
        *("--name", "north", "--tenants", "acme,bolt", "--log-level", "debug", "--json"),
    )
    assert runs == [
        WorkerRun(target=APP),
        WorkerRun(
            target=APP,
            queues={"mail": None, "slow": 2},
            concurrency=7,
            processes=3,
            lease=30,
            grace=2.5,
            name="north",
            tenants=("acme", "bolt"),
            log_level="debug",
            json=True,
        ),
    ]


def test_a_queue_without_a_limit_may_use_every_slot() -> None:
    app = Tenure("memory://")
    assert limits(app, WorkerRun(target="")) is None
    assert limits(app, WorkerRun(target="", queues={"a": None, "b": 2})) == {"a": app.settings.concurrency, "b": 2}
    assert limits(app, WorkerRun(target="", queues={"a": None}, concurrency=5)) == {"a": 5}


def test_the_default_name_tells_workers_apart(shop: Shop) -> None:
    with worker(APP) as process:
        assert re.match(r"worker \S+-\d+-[0-9a-f]{4} serves mail, slow at ", process.line())
        process.signal(signal.SIGTERM)
        assert process.ended() == 0


def test_it_says_who_it_is_while_it_is_there(cli: Cli, shop: Shop) -> None:
    async def present(app: Tenure) -> None:
        store = await app.store()
        async with asyncio.timeout(SECONDS):
            while not await store.list_documents("_system", "worker"):
                await asyncio.sleep(0)

    with worker(APP, "--name", "north") as process:
        process.line()
        shop.use(present)
        assert [one["name"] for one in cli.json("workers")["workers"]] == ["north"]
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
    assert cli.json("workers") == {"workers": []}


def test_an_apps_own_logging_holds_in_all_its_processes(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import logging\n"
        "from tests.cli.shop import app\n"
        'logging.basicConfig(level="INFO", format="mine %(name)s %(message)s")\n'
    )
    with worker("loud:app", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])) as process:
        said = [process.error(), process.error()]
        assert sorted(" ".join(line.split()[:2]) for line in said) == ["mine tenure.supervisor", "mine tenure.worker"]
