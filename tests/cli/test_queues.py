"""`tenure queues`."""

import pytest

from tenure import Tenure
from tenure.domain.names import EVERYONE
from tenure.engine.queue import QueueOptions
from tests.cli.kit import Cli, Shop

EVERYTHING = (
    *("--mode", "keyed", "--ordered", "--group-limit", "2", "--group-limits", "vip=5"),
    *("--group-rate", "5/min", "--group-burst", "3", "--limit", "100", "--rate", "10/30s", "--burst", "20"),
    *("--weight", "3", "--max-depth", "10000", "--lease", "30", "--grace", "1.5"),
)
CONFIG = {
    "mode": "keyed",
    "ordered": True,
    "group_limit": 2,
    "group_limits": {"vip": 5},
    "group_rate": "5/min",
    "group_burst": 3,
    "limit": 100,
    "rate": "10/30s",
    "burst": 20,
    "weight": 3,
    "max_depth": 10_000,
    "lease": 30,
    "grace": 1.5,
}


def test_every_field_can_be_configured_and_taken_back(cli: Cli, shop: Shop) -> None:
    told = cli.json("queues", "configure", "mail", *EVERYTHING)
    assert told == {"tenant": EVERYONE, "queue": "mail", "paused": False, "config": CONFIG}
    assert CONFIG.keys() == QueueOptions.__annotations__.keys()
    config = shop.use(lambda app: app.queue("mail").config())
    assert (config.lease, config.grace, config.limit) == (30_000, 1_500, 100)
    fields = ",".join(name.replace("_", "-") for name in CONFIG if name != "limit")
    assert cli.json("queues", "configure", "mail", "--unset", fields)["config"] == {"limit": 100}
    ran = cli.done("queues", "configure", "mail", "--no-ordered", "--unset", "limit")
    assert ran.out == "mail of every tenant: active, ordered=no\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--mode", "fast"], "invalid choice: 'fast'"),
        (["--group-limits", "a=b=1"], "give a whole number, 1 or more"),
        (["--rate", "quick"], "give a rate such as '100/s'"),
        (["--weight", "17"], "give an integer from 1 to 16"),
        (["--limit", "0"], "give a whole number, 1 or more"),
        (["--unset", "colour"], "--unset 'colour': give any of mode, ordered"),
        (["--unset", "limit", "--limit", "3"], "limit is set and unset at once"),
        (["--lease", "0"], "lease 0: give an integer from 1 to"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, argv: list[str], said: str) -> None:
    ran = cli("queues", "configure", "mail", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_mode_that_cant_change_now_is_1(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    ran = cli("queues", "configure", "mail", "--mode", "keyed")
    assert (ran.code, ran.err) == (1, "tenure: the queue isn't empty and stays plain\n")


def test_pause_and_resume_for_everyone_and_for_one(cli: Cli, shop: Shop) -> None:
    (mine,) = shop.enqueue()
    (theirs,) = shop.enqueue(tenant="acme")

    def gates() -> tuple[tuple[str, ...], tuple[str, ...]]:
        return shop.get(mine).gates, shop.get(theirs, "acme").gates

    assert cli.done("queues", "pause", "mail").out == "mail of every tenant: paused, nothing set\n"
    assert gates() == (("queue_paused",), ("queue_paused",))
    assert cli.json("queues", "resume", "mail")["paused"] is False
    assert cli.done("queues", "pause", "mail", "--tenant", "acme").out == "mail of tenant acme: paused, nothing set\n"
    assert gates() == ((), ("queue_paused",))
    cli.done("queues", "resume", "mail", "--tenant", "acme")
    assert gates() == ((), ())


def test_the_list_shows_configuration_and_counts(cli: Cli, shop: Shop) -> None:
    shop.enqueue(3)
    shop.claim(1)
    shop.enqueue(1, queue="video")
    shop.enqueue(2, tenant="acme")
    cli.done("queues", "configure", "mail", "--limit", "5", "--rate", "100/s")
    cli.done("queues", "configure", "mail", "--limit", "2", "--tenant", "acme")
    cli.done("queues", "pause", "idle")
    for argv in (["queues"], ["queues", "list"]):
        head, idle, mail, video = cli.done(*argv).lines
        assert head.split() == ["queue", "waiting", "running", "state", "configuration"]
        assert idle.split() == ["idle", "0", "0", "paused"]
        assert mail.split() == ["mail", "2", "1", "active", "limit=5", "rate=100/s"]
        assert video.split() == ["video", "1", "0", "active"]
    told = cli.json("queues", "--tenant", "acme")
    assert told["capped"] is False
    assert told["queues"][1] == {
        "tenant": "acme",
        "queue": "mail",
        "waiting": 2,
        "running": 0,
        "paused": False,
        "config": {"limit": 2, "rate": "100/s"},
    }


def test_the_list_of_all_tenants(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    shop.enqueue(tenant="acme")
    cli.done("queues", "configure", "mail", "--limit", "5")
    _, *rows = cli.done("queues", "--all-tenants").lines
    assert [row.split()[:3] for row in rows] == [["*", "mail", "0"], ["acme", "mail", "1"], ["default", "mail", "1"]]


def test_queues_that_a_worker_declared_are_listed(cli: Cli, shop: Shop) -> None:
    shop.work()
    assert [one["queue"] for one in cli.json("queues")["queues"]] == ["mail", "slow"]


def test_counting_is_bounded_and_says_so(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.service.cli.queues.COUNTED", 2)
    shop.enqueue(3)
    ran = cli.done("queues")
    assert "only the newest 2 waiting and running jobs were counted" in ran.err
    assert cli.json("queues")["capped"] is True


def test_no_queues(cli: Cli) -> None:
    cli.done("migrate")
    ran = cli.done("queues")
    assert (ran.out, ran.err) == ("", "tenure: no queues\n")


def test_a_queue_needs_a_name(cli: Cli) -> None:
    for action in ("configure", "pause", "resume"):
        assert cli("queues", action).code == 2
    assert cli("queues", "pause", "a b").code == 2


def test_configuring_creates_the_store(cli: Cli, shop: Shop) -> None:
    cli.done("queues", "pause", "mail")

    async def paused(app: Tenure) -> bool | None:
        return (await app.queue("mail").config()).paused

    assert shop.use(paused) is True
