"""`tenure schedules`, `tenure workers` and `tenure top`."""

import asyncio
import json
import subprocess
import sys

import msgspec
import pytest

from tenure import Tenure
from tenure.domain.calls import Document
from tenure.domain.event import Event
from tenure.domain.names import SYSTEM
from tenure.domain.states import EventKind
from tenure.engine.declared import Declarations
from tenure.engine.worker.presence import WORKER, RunningJob, WorkerCard
from tenure.service.cli import workers
from tenure.service.cli.top import WINDOW_SECONDS, Recent
from tests.cli.handlers import send
from tests.cli.kit import Cli, Shop


def test_schedules(cli: Cli, shop: Shop) -> None:
    async def declare(app: Tenure) -> None:
        await app.schedule("nightly", "0 3 * * *", send.build("a"), tz="Europe/Rome")
        await app.schedule("often", 90, send.build("a"))
        await app.schedule("resting", 60, send.build("a"))
        await app.pause_schedule("resting")

    shop.use(declare)
    told = {one["name"]: one for one in cli.json("schedules")["schedules"]}
    assert told["nightly"]["cron"] == "0 3 * * *"
    assert told["nightly"]["tz"] == "Europe/Rome"
    assert told["often"]["every"] == 90
    assert told["often"]["job_type"] == "send"
    assert "type" not in told["often"]
    assert told["often"]["next_at"] is not None
    assert (told["resting"]["paused"], told["resting"]["next_at"]) == (True, None)
    for argv in (["schedules"], ["schedules", "list"]):
        _, nightly, often, resting = cli.done(*argv).lines
        assert nightly.startswith("nightly  0 3 * * * (Europe/Rome)  send  mail   ")
        assert often.split()[:5] == ["often", "every", "90", "s", "send"]
        assert resting.split()[-1] == "paused"
    ran = cli.done("schedules", "--tenant", "acme")
    assert (ran.out, ran.err) == ("", "tenure: no schedules\n")


def test_declared_schedules(cli: Cli, shop: Shop) -> None:
    async def declare(app: Tenure) -> None:
        @app.job(cron="0 3 * * *", queue="mail")
        async def nightly() -> None: ...

        await Declarations(app).look()
        await app.schedule("often", 90, send.build("a"))

    shop.use(declare)
    told = {one["name"]: one for one in cli.json("schedules")["schedules"]}
    assert (told["nightly"]["declared"], told["nightly"]["undeclared"]) == (True, False)
    assert (told["often"]["declared"], told["often"]["undeclared"]) == (False, False)
    head, nightly, often = cli.done("schedules").lines
    assert head.split() == ["name", "when", "type", "queue", "made", "next", "last"]
    assert "  mail   in code      " in nightly
    assert "  mail   at run time  " in often


def test_a_schedule_is_paused_resumed_and_removed(cli: Cli, shop: Shop) -> None:
    async def declare(app: Tenure) -> None:
        await app.tenant("acme").schedule("often", 90, send.options(tenant="acme").build("a"))

    shop.use(declare)
    acme = ("--tenant", "acme")
    assert cli.done("schedules", "pause", "often", *acme).out == "often of tenant acme: paused\n"
    assert cli.json("schedules", *acme)["schedules"][0]["paused"] is True
    assert cli.done("schedules", "resume", "often", *acme).out.startswith("often of tenant acme: 20")
    assert cli.json("schedules", "pause", "often", *acme)["paused"] is True
    assert cli.done("schedules", "remove", "often", *acme).out == "often of tenant acme: removed\n"
    assert cli.json("schedules", *acme) == {"schedules": []}
    for action in ("pause", "resume", "remove"):
        ran = cli("schedules", action, "often", *acme)
        assert (ran.code, ran.out, ran.err) == (1, "", "tenure: schedule 'often': tenant acme has none of this name\n")
    assert cli("schedules", "remove", "often", "--json").document == {
        "tenant": "default",
        "name": "often",
        "removed": False,
    }
    assert cli("schedules", "remove", "no good").code == 2


def test_what_workers_declare_is_refused_and_says_why(cli: Cli, shop: Shop) -> None:
    async def declare(app: Tenure) -> None:
        @app.job(every=60)
        async def often() -> None: ...

        await Declarations(app).look()

    shop.use(declare)
    ran = cli("schedules", "remove", "often")
    assert (ran.code, ran.out) == (1, "")
    assert "workers declare it; take cron= or every= off job often" in ran.err
    assert cli.done("schedules", "pause", "often").out == "often of tenant default: paused\n"


def test_no_workers(cli: Cli) -> None:
    cli.done("migrate")
    ran = cli.done("workers")
    assert (ran.out, ran.err) == ("", "tenure: no workers\n")
    assert cli.json("workers") == {"workers": []}


def test_workers_and_top_while_a_job_runs(shop: Shop) -> None:
    """Both are asked by processes of their own, while a worker here has a job in hand."""
    (held,) = shop.enqueue(job_type="hold")

    async def asked(*argv: str) -> str:
        command = [sys.executable, "-m", "tenure", *argv]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    async def main(app: Tenure) -> tuple[str, ...]:
        started = asyncio.Event()
        app.on("job_started")(lambda _: started.set())
        worker = app.worker(name="north")
        async with worker:
            await started.wait()
            while not await (await app.store()).list_documents(SYSTEM, WORKER):
                await asyncio.sleep(0)
            frames = (
                await asked("workers"),
                await asked("workers", "--json"),
                await asked("top", "--once"),
                await asked("top", "--once", "--json"),
                await asked("jobs", "--json"),
            )
            worker.stop(hard=True)
        return frames

    listed, workers_json, top, top_json, jobs_json = shop.use(main)
    _, row = listed.splitlines()
    assert row.split()[0] == "north"
    assert "mail, slow" in row
    (card,) = json.loads(workers_json)["workers"]
    assert (card["name"], card["queues"]) == ("north", ["mail", "slow"])
    assert "1 worker, 1 running" in top
    assert held in top
    frame = json.loads(top_json)
    assert [job["id"] for job in frame["running"]] == [held]
    assert frame["running"][0]["worker"] == "north"
    assert frame["events"]["claimed"] == 1
    assert json.loads(jobs_json)["jobs"][0]["status"] == "running"


def test_a_worker_says_what_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 7_300.0)
    card = WorkerCard(
        name="north",
        host="box",
        pid=7,
        started_at=100,
        queues=("mail", "video"),
        concurrency=10,
        running=1,
        jobs=(RunningJob("acme", "some-id", "send", 3.5),),
    )
    assert workers.rows([card]) == [("north", "box", "7", "2 h", "1/10", "mail, video", "send some-id")]


def test_workers_and_top_say_the_same_of_what_runs(cli: Cli, shop: Shop) -> None:
    """By the jobs' records: what a worker wrote of itself may be ten seconds old."""
    shop.enqueue(3)
    ran = WorkerCard(
        name="north",
        host="box",
        pid=7,
        started_at=100,
        queues=("mail",),
        concurrency=10,
        running=2,
        jobs=(RunningJob("default", "ended", "send", 3.5),),
    )

    async def write(app: Tenure) -> None:
        body = msgspec.json.encode(ran)
        await (await app.store()).put_document(
            Document(tenant=SYSTEM, kind=WORKER, name="north", body=body), ttl=60_000
        )

    shop.use(write)
    (running,) = (one.job.spec.id for one in shop.claim())
    for argv in (["workers"], ["top", "--once"]):
        (card,) = cli.json(*argv)["workers"]
        assert (card["running"], [job["id"] for job in card["jobs"]]) == (1, [running])
    (line,) = (line for line in cli.done("workers").lines if line.startswith("north"))
    assert "1/10" in line.split()


def test_top_once(cli: Cli, shop: Shop) -> None:
    shop.enqueue(3)
    (running,) = (one.job.spec.id for one in shop.claim())
    shop.enqueue(1, tenant="acme")
    lines = cli.done("top", "--once").lines
    assert lines[0].endswith("Z: 0 workers, 1 running")
    assert any(line.startswith(running) and "north" in line for line in lines)
    assert f"events of the last {WINDOW_SECONDS} s" in lines
    assert any(line.split() == ["enqueued", "3", f"{3 / WINDOW_SECONDS:.1f}"] for line in lines)
    frame = cli.json("top", "--once")
    assert frame["events"] == {"enqueued": 3, "claimed": 1}
    assert (frame["more"], frame["caught_up"]) == (False, True)
    assert cli.json("top", "--once", "--all-tenants")["events"] == {"enqueued": 4, "claimed": 1}


def test_top_shows_how_much_waits_in_each_queue(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.enqueue(3)
    shop.claim()
    shop.enqueue(2, tenant="acme", delay=60)
    shop.enqueue(1, "hold")
    assert cli.json("top", "--once")["queues"] == [
        {"queue": "mail", "ready": 2, "scheduled": 0, "blocked": 0, "running": 1},
        {"queue": "slow", "ready": 1, "scheduled": 0, "blocked": 0, "running": 0},
    ]
    ran = cli.json("top", "--once", "--all-tenants")
    assert ran["queues"][0] == {"queue": "mail", "ready": 2, "scheduled": 2, "blocked": 0, "running": 1}
    assert not ran["capped"]
    lines = cli.done("top", "--once").lines
    assert lines[lines.index("queues") + 1].split() == ["queue", "ready", "scheduled", "blocked", "running"]
    assert lines[lines.index("queues") + 2].split() == ["mail", "2", "0", "0", "1"]
    monkeypatch.setattr("tenure.service.cli.top.COUNTED", 2)
    assert "queues, of the newest 2 jobs" in cli.done("top", "--once").lines
    assert cli.json("top", "--once")["capped"]


def test_top_says_when_more_run_than_it_shows_and_when_it_is_behind(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.service.cli.top.SHOWN", 2)
    monkeypatch.setattr("tenure.service.cli.top.READS", 1)
    shop.enqueue(3)
    shop.claim(3)
    assert cli.done("top", "--once").lines[0].endswith("more than 2 running, still reading the feed")
    frame = cli.json("top", "--once")
    assert (len(frame["running"]), frame["more"], frame["caught_up"]) == (2, True, False)


def test_top_goes_on_until_interrupted_with_a_line_of_json_each(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third pause is the moment of Ctrl-C. What happened before it began isn't read: a feed may be long."""
    shop.enqueue(3)
    pauses = 0

    async def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise KeyboardInterrupt
        await asyncio.to_thread(shop.enqueue)

    monkeypatch.setattr("tenure.service.cli.top.pause", pause)
    ran = cli("top", "--json")
    assert ran.code == 130
    frames = [json.loads(line) for line in ran.lines]
    assert [frame["events"].get("enqueued", 0) for frame in frames] == [0, 1, 2]
    assert all(1 <= frame["window_seconds"] <= WINDOW_SECONDS for frame in frames)


def test_recent_events_are_those_of_the_last_minute() -> None:
    recent = Recent()
    recent.add([Event("a", EventKind.ENQUEUED, second * 1_000) for second in range(200)])
    recent.add([Event("a", EventKind.CLAIMED, 199_500)])
    assert recent.counts(199_999) == {"enqueued": WINDOW_SECONDS, "claimed": 1}
    assert recent.counts(230_000) == {"enqueued": 29, "claimed": 1}
    assert recent.counts(400_000) == {}
