"""`tenure cancel`, `tenure replay` and `tenure dead-letters`."""

import pytest

from tenure import Tenure
from tenure.domain.calls import Settle, Succeed
from tests.cli.kit import UNKNOWN, Cli, Shop

# cancel


def test_cancel_one(cli: Cli, shop: Shop) -> None:
    first, second = shop.enqueue(2)
    assert cli.done("cancel", first).out == "cancelled\n"
    told = cli.json("cancel", second)
    assert told == {"id": second, "cancelled": True, "was_running": False, "state": "cancelled"}
    assert shop.states([first, second]) == ["cancelled", "cancelled"]


def test_cancel_a_running_one(cli: Cli, shop: Shop) -> None:
    shop.enqueue(2)
    first, second = (one.job.spec.id for one in shop.claim(2))
    assert cli.done("cancel", first).out == "cancelled; its handler is being told\n"
    assert cli.done("cancel", second, "--request").out == "asked to stop; it is still running\n"
    assert shop.states([first, second]) == ["cancelled", "running"]
    assert shop.get(second).cancel_requested


def test_cancel_one_that_ended(cli: Cli, shop: Shop) -> None:
    done, cancelled = shop.enqueue()[0], ""
    shop.work()
    (cancelled,) = shop.enqueue()
    cli.done("cancel", cancelled)
    ran = cli("cancel", done)
    assert (ran.code, ran.out) == (1, "nothing to cancel: the job had already succeeded\n")
    ran = cli("cancel", done, "--json")
    assert (ran.code, ran.document["state"]) == (1, "succeeded")
    assert cli.done("cancel", cancelled).out == "nothing to cancel: the job had already been cancelled\n"


def test_cancel_what_isnt_there(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue()
    for argv in ([UNKNOWN], [id, "--tenant", "acme"]):
        ran = cli("cancel", *argv)
        assert (ran.code, ran.err) == (1, "tenure: no such job in this tenant\n")
    assert cli("cancel", "nonsense").code == 2


def test_cancel_many_needs_a_yes(cli: Cli, shop: Shop) -> None:
    ids = shop.enqueue(2)
    ran = cli("cancel", "--queue", "mail")
    assert (ran.code, ran.out) == (2, "")
    assert "this would cancel 2 jobs of tenant default, and there is no terminal to ask: give --yes" in ran.err
    assert cli.done("cancel", "--queue", "mail", "--dry-run").out == "would cancel 2 jobs\n"
    assert cli.json("cancel", "--all", "--dry-run") == {"dry_run": True, "matched": 2}
    assert shop.states(ids) == ["pending", "pending"]


def test_cancel_many(cli: Cli, shop: Shop) -> None:
    mail, other, foreign = shop.enqueue(250), shop.enqueue(2, queue="video"), shop.enqueue(1, tenant="acme")
    running = shop.claim(1)[0].job.spec.id
    assert cli.done("cancel", "--queue", "mail", "--state", "pending", "--yes").out == "cancelled 249 jobs\n"
    assert shop.get(running).state == "running"
    assert shop.get(foreign[0], "acme").state == "pending"
    assert set(shop.states(other)) == {"pending"}
    assert cli.json("cancel", "--all", "--request", "--yes") == {"cancelled": 3, "nothing_to_do": 0, "refused": {}}
    assert shop.get(running).cancel_requested
    assert set(shop.states([id for id in mail[:3] + other if id != running])) == {"cancelled"}
    assert cli.done("cancel", "--all", "--queue", "nowhere", "--yes").out == "cancelled 0 jobs\n"


def test_cancel_many_passes_over_a_job_that_ended_meanwhile(
    cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the question and the answer."""
    (id,) = shop.enqueue()
    claimed = shop.claim()

    async def finish(app: Tenure) -> None:
        await (await app.store()).settle([Settle(claimed[0].token, Succeed())])

    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            shop.use(finish)
            return "y\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    ran = cli.done("cancel", "--all", "--json")
    assert ran.document == {"cancelled": 0, "nothing_to_do": 0, "refused": {}}
    assert ran.err == "Cancel 1 job of tenant default? [y/N] "
    assert shop.get(id).state == "succeeded"


# replay


def test_replay_one(cli: Cli, shop: Shop) -> None:
    (id,) = shop.fail()
    new = cli.done("replay", id).out.strip()
    job = shop.get(new)
    assert (job.replay_of, job.payload, job.state) == (id, {"to": "a@b.example"}, "pending")
    ran = cli.done("replay", id, "--json")
    assert ran.document == {"id": new, "created": False, "replay_of": id}
    assert "it was replayed before" in ran.err
    another = cli.json("replay", id, "--again")
    assert another["created"] is True
    assert another["id"] != new


def test_replay_with_other_arguments(cli: Cli, shop: Shop) -> None:
    (id,) = shop.fail()
    new = cli.done("replay", id, "--payload", '{"to": "c@d.example"}').out.strip()
    assert shop.get(new).payload == {"to": "c@d.example"}
    (id,) = shop.fail()
    ran = cli("replay", id, "--payload", '{"too": 1}', "--app", "tests.cli.shop:app")
    assert ran.code == 2
    assert cli("replay", id, "--payload", "{").code == 2
    assert shop.get(id).replayed_as is None


def test_replay_what_cant_be(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue()
    ran = cli("replay", id)
    assert (ran.code, ran.err) == (1, "tenure: the job is pending: only a failed job can be replayed or discarded\n")
    assert cli("replay", UNKNOWN).code == 1


def test_replay_many(cli: Cli, shop: Shop) -> None:
    ids = shop.fail(3, labels={"team": "crm"}) + shop.fail(1)
    assert cli.done("replay", "--label", "team=crm", "--dry-run").out == "would replay 3 jobs\n"
    assert cli("replay", "--queue", "mail").code == 2
    assert cli.json("replay", "--label", "team=crm", "--yes") == {"replayed": 3, "nothing_to_do": 0, "refused": {}}
    assert [shop.get(id).dead_letter for id in ids] == ["replayed", "replayed", "replayed", "open"]
    assert cli.done("replay", "--all", "--yes").out == "replayed 1 job\n"
    assert cli.done("replay", "--all", "--yes").out == "replayed 0 jobs\n"
    assert [shop.get(id).replay_of for id in [shop.get(id).replayed_as or "" for id in ids]] == ids


def test_replay_many_keeps_to_a_rate(cli: Cli, shop: Shop) -> None:
    """Three at one a second: the last leaves two seconds after the first, by the store's own clock."""
    ids = shop.fail(3)
    assert cli.done("replay", "--all", "--rate", "1/s", "--dry-run").out == "would replay 3 jobs\n"
    assert cli.done("replay", "--all", "--rate", "1/1s", "--yes").out == "replayed 3 jobs\n"
    times = sorted(shop.get(shop.get(id).replayed_as or "").enqueued_at for id in ids)
    assert (times[-1] - times[0]).total_seconds() > 1.9


def test_refusals_of_many_are_told_and_are_1(cli: Cli, shop: Shop) -> None:
    shop.fail(3)
    cli.done("queues", "configure", "mail", "--max-depth", "1")
    ran = cli("replay", "--all", "--yes", "--json")
    assert ran.code == 1
    assert ran.document == {"replayed": 1, "nothing_to_do": 0, "refused": {"QueueFull": 2}}
    assert ran.err == "tenure: 2 jobs refused: QueueFull\n"


# dead letters


def test_dead_letters_are_listed(cli: Cli, shop: Shop) -> None:
    open_one, replayed = shop.fail(2)
    shop.enqueue()
    cli.done("replay", replayed)
    for argv in (["dead-letters"], ["dead-letters", "list"]):
        _, row = cli.done(*argv).lines
        assert row.split()[0] == open_one
        assert row.endswith("Refused: no stamp")
    assert [job["id"] for job in cli.json("dead-letters", "--disposition", "replayed")["jobs"]] == [replayed]
    assert cli.json("dead-letters", "--queue", "video") == {"jobs": [], "more": False}
    assert cli.done("dead-letters", "--tenant", "acme").err == "tenure: no dead letters\n"
    assert len(cli.json("dead-letters", "--all-tenants")["jobs"]) == 1
    assert cli("dead-letters", "--disposition", "lost").code == 2


def test_discard_one(cli: Cli, shop: Shop) -> None:
    first, second, replayed = shop.fail(3)
    assert cli.done("dead-letters", "discard", first).out == "discarded\n"
    assert cli.json("dead-letters", "discard", second) == {"id": second, "discarded": True}
    assert [shop.get(id).dead_letter for id in (first, second)] == ["discarded", "discarded"]
    cli.done("replay", replayed)
    ran = cli("dead-letters", "discard", replayed)
    assert ran.code == 1
    assert "already replayed as" in ran.err
    assert cli("dead-letters", "discard", UNKNOWN).code == 1
    assert cli("dead-letters", "discard").code == 2


def test_discard_many(cli: Cli, shop: Shop) -> None:
    ids = shop.fail(3)
    assert cli("dead-letters", "discard", "--queue", "mail").code == 2
    assert cli.done("dead-letters", "discard", "--all", "--dry-run").out == "would discard 3 dead letters\n"
    assert cli.done("dead-letters", "discard", "--queue", "mail", "--yes").out == "discarded 3 dead letters\n"
    assert {shop.get(id).dead_letter for id in ids} == {"discarded"}


def test_counting_many_is_bounded(cli: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.service.cli.many.COUNTED", 2)
    shop.enqueue(3)
    assert "this would cancel more than 2 jobs of tenant default" in cli("cancel", "--all").err
    assert cli.done("cancel", "--all", "--yes").out == "cancelled 3 jobs\n"


def test_a_frozen_store_is_1(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue()

    async def freeze(app: Tenure) -> None:
        await (await app.store()).freeze()

    shop.use(freeze)
    ran = cli("cancel", id)
    assert (ran.code, ran.err) == (1, "tenure: the store is frozen\n")
