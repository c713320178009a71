"""`tenure enqueue`."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from tenure import Tenure
from tests.cli.handlers import jobs
from tests.cli.kit import Cli, Shop

SHOP = ("--app", "tests.cli.shop:app")


def test_it_prints_the_id_and_the_job_is_there(cli: Cli, shop: Shop) -> None:
    ran = cli.done("enqueue", "send", "--payload", '{"to": "a@b.example", "copies": 2}')
    (id,) = ran.lines
    job = shop.get(id)
    assert (job.job_type, job.queue, job.payload) == ("send", "default", {"to": "a@b.example", "copies": 2})
    assert ran.err == ""


def test_the_app_says_where_a_job_goes(cli: Cli, shop: Shop) -> None:
    told = cli.json("enqueue", "send", *SHOP, "--arg", "to=a@b.example")
    assert told == {"id": told["id"], "created": True}
    assert shop.get(told["id"]).queue == "mail"


def test_every_option_arrives(cli: Cli, shop: Shop) -> None:
    cli.done("queues", "configure", "vip", "--mode", "keyed")
    told = cli.json(
        "enqueue",
        "send",
        *("--arg", "to=a", "--arg", "n=3", "--arg", "flag=true", "--arg", 'list=["x"]', "--arg", "zip=01234"),
        *("--queue", "vip", "--priority", "high", "--delay", "60", "--key", "k", "--group", "g"),
        *("--label", "team=crm", "--label", "tier=a=b", "--tenant", "acme"),
    )
    job = shop.get(told["id"], "acme")
    assert job.payload == {"to": "a", "n": 3, "flag": True, "list": ["x"], "zip": "01234"}
    assert (job.queue, job.priority, job.key, job.group) == ("vip", 50, "k", "g")
    assert job.labels == {"team": "crm", "tier": "a=b"}
    assert job.status == "scheduled"


def test_a_type_that_the_app_does_not_have_is_refused(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    ran = cli("enqueue", "sendd", *SHOP, "--arg", "to=a")
    assert (ran.code, ran.out) == (2, "")
    assert "tests.cli.shop:app has no job type 'sendd': did you mean send?" in ran.err
    assert "it has " in cli("enqueue", "zzz", *SHOP).err
    assert len(cli.json("jobs")["jobs"]) == 1
    assert cli.done("enqueue", "elsewhere").out.startswith("01")


def test_a_taken_key_gives_the_job_that_holds_it(cli: Cli) -> None:
    first = cli.json("enqueue", "send", "--key", "k")
    ran = cli.done("enqueue", "send", "--key", "k", "--json")
    assert ran.document == {"id": first["id"], "created": False}
    assert "the key is taken" in ran.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--payload", "{to: a}"], "is no JSON"),
        (["--payload", "[1]"], "give an object, the arguments by name"),
        (["--payload", "{}", "--arg", "a=1"], "not allowed with argument"),
        (["--arg", "to"], "give NAME=VALUE"),
        (["--arg", "=1"], "give NAME=VALUE"),
        (["--arg", "a=1", "--arg", "a=2"], "the same argument is given twice"),
        (["--priority", "urgent"], "give -100 to 100, or LOWEST"),
        (["--priority", "101"], "give an integer from -100 to 100"),
        (["--delay", "-1"], "give a number of seconds"),
        (["--delay", "inf"], "give a number of seconds"),
        (["--queue", "a b"], "give 1 to 64 of"),
        (["--tenant", "a b"], "give 1 to 64 of"),
        ([*SHOP], "missing a required argument: 'to'"),
        ([*SHOP, "--arg", "to=1"], "Expected `str`, got `int`"),
        (["--arg", "to=\udcff"], "payload"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_stored(cli: Cli, shop: Shop, argv: list[str], said: str) -> None:
    ran = cli("enqueue", "send", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    cli.done("migrate")
    assert cli.json("jobs") == {"jobs": [], "more": False}


def test_a_full_queue_is_1(cli: Cli) -> None:
    cli.done("queues", "configure", "mail", "--max-depth", "1")
    cli.done("enqueue", "send", "--queue", "mail")
    ran = cli("enqueue", "send", "--queue", "mail")
    assert (ran.code, ran.err) == (1, "tenure: the queue already holds its 1 waiting jobs\n")


class Working:
    """A worker in a thread, for as long as the block lasts."""

    def __init__(self, url: str, blobs: str | None = None) -> None:
        self._url = url
        self._blobs = blobs
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    async def _main(self) -> None:
        app = Tenure(self._url, blobs=self._blobs)
        app.include(jobs)
        self._loop = asyncio.get_running_loop()
        async with app, app.worker():
            self._ready.set()
            await self._end.wait()

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


def test_wait_prints_the_result(cli: Cli, shop: Shop) -> None:
    with Working(shop.url):
        ran = cli.done("enqueue", "send", *SHOP, "--arg", "to=a", "--wait", "30")
        id, result = ran.lines
        assert json.loads(result) == "a × 1"
        assert shop.get(id).state == "succeeded"
        told = cli.json("enqueue", "send", "--queue", "mail", "--arg", "to=b", "--wait", "30")
        assert told == {"id": told["id"], "created": True, "result": "b × 1"}


def test_wait_prints_a_result_from_the_apps_blob_store(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the store isn't the app's own."""
    blobs, text = f"file://{tmp_path}/blobs", "x" * 140_000
    source = (
        "from tenure import Tenure\nfrom tests.cli.handlers import jobs\n"
        f"app = Tenure('sqlite:///other.db', blobs={blobs!r})\napp.include(jobs)"
    )
    (tmp_path / "cli_large.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with Working(shop.url, blobs):
        ran = cli.json("enqueue", "echo", "--app", "cli_large:app", "--arg", f"text={text}", "--wait", "30")
    assert ran["result"] == text
    assert not (tmp_path / "other.db").exists()


def test_wait_for_a_job_without_a_result(cli: Cli, shop: Shop) -> None:
    with Working(shop.url):
        assert cli.json("enqueue", "silent", "--queue", "mail", "--wait", "30")["result"] is None


def test_wait_for_a_job_that_fails_is_1_and_the_id_is_printed(cli: Cli, shop: Shop) -> None:
    with Working(shop.url):
        ran = cli("enqueue", "broken", *SHOP, "--wait", "30")
        assert ran.code == 1
        assert ran.err == f"tenure: job {ran.lines[0]} failed (permanent): Fail: no stamp\n"
        ran = cli("enqueue", "broken", *SHOP, "--wait", "30", "--json")
        assert ran.code == 1
        assert ran.document["error"] == ran.err.removeprefix("tenure: ").rstrip()


def test_wait_that_is_too_short_is_1(cli: Cli) -> None:
    ran = cli("enqueue", "send", "--wait", "0.01", "--json")
    assert ran.code == 1
    assert ran.document["id"] in ran.err
    assert "hasn't ended after 0.01 s; it goes on" in ran.err
