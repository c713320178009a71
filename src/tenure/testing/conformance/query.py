"""Reading: jobs by id and by filter."""

from tenure.domain.calls import JobFilter
from tenure.domain.errors import JobNotFound
from tenure.domain.job import Parent
from tenure.domain.names import HOUR, SECOND
from tenure.domain.states import Disposition, State, Status
from tenure.testing.conformance.kit import World, ok


def test_get_answers_in_the_order_asked(world: World) -> None:
    first, second = world.add(), world.add(tenant="bolt")
    missing = world.id()
    replies = world.run(world.store.get([("bolt", second), ("acme", missing), ("acme", first), ("acme", second)]))
    assert [r if isinstance(r, JobNotFound) else ok(r).job.ref for r in replies] == [
        ("bolt", second),
        JobNotFound(),
        ("acme", first),
        JobNotFound(),
    ]


def test_status_depends_on_time(world: World) -> None:
    token = world.start()
    scheduled = world.add(delay=SECOND)
    ok(world.retry(token, SECOND))
    assert (world.status(token.job_id), world.status(scheduled)) == (Status.RETRYING, Status.SCHEDULED)
    world.tick(SECOND)
    assert (world.status(token.job_id), world.status(scheduled)) == (Status.READY, Status.READY)


def test_payloads_come_back_byte_by_byte(world: World) -> None:
    payload = bytes(range(256)) * 1_024
    assert world.get(world.add(payload=payload)).payload == payload
    assert world.get(world.add(payload=b"")).payload == b""


def test_newest_first(world: World) -> None:
    jobs = world.add_many(3)
    assert world.query() == jobs[::-1]


def test_pages(world: World) -> None:
    jobs = world.add_many(7)
    assert world.query(limit=3) == jobs[::-1]
    assert world.query(limit=7) == jobs[::-1]
    assert world.query(limit=1) == jobs[::-1]


def test_a_page_stays_where_it_was(world: World) -> None:
    jobs = world.add_many(4)
    first = world.run(world.store.query(JobFilter(), limit=2))
    world.add_many(2)
    second = world.run(world.store.query(JobFilter(), after=first.cursor, limit=2))
    assert [view.job.spec.id for view in (*first.jobs, *second.jobs)] == jobs[::-1]


def test_a_page_tells_what_get_tells(world: World) -> None:
    id = world.succeeded(result=b"1")
    (view,) = world.run(world.store.query(JobFilter())).jobs
    assert (view.job, view.status) == (world.record(id), Status.SUCCEEDED)


def test_nothing_found(world: World) -> None:
    page = world.run(world.store.query(JobFilter(tenant="acme")))
    assert (page.jobs, page.cursor) == ((), None)


def test_by_tenant_queue_and_type(world: World) -> None:
    a = world.add()
    b = world.add("video")
    c = world.add(job_type="render")
    d = world.add(tenant="bolt")
    assert world.query(tenant="acme") == [c, b, a]
    assert world.query(tenant="bolt") == [d]
    assert world.query(queue="mail") == [d, c, a]
    assert world.query(job_type="render") == [c]
    assert world.query(tenant="acme", queue="mail", job_type="send") == [a]


def test_by_state(world: World) -> None:
    done = world.succeeded()
    running = world.start().job_id
    pending = world.add()
    blocked = world.add(parents=(Parent(pending),))
    assert world.query(states=(State.PENDING,)) == [pending]
    assert world.query(states=(State.BLOCKED, State.RUNNING, State.SUCCEEDED)) == [blocked, running, done]
    assert world.query(states=(State.FAILED,)) == []


def test_by_labels(world: World) -> None:
    both = world.add(labels={"team": "crm", "tier": "1"})
    one = world.add(labels={"team": "crm"})
    world.add(labels={"team": "ops"})
    world.add()
    assert world.query(labels={"team": "crm"}) == [one, both]
    assert world.query(labels={"team": "crm", "tier": "1"}) == [both]
    assert world.query(labels={"tier": "crm"}) == []


def test_by_time_of_arrival(world: World) -> None:
    first = world.add()
    world.tick(HOUR)
    second = world.add()
    world.tick(HOUR)
    third = world.add()
    assert world.query(enqueued_from=world.now - HOUR) == [third, second]
    assert world.query(enqueued_before=world.now) == [second, first]
    assert world.query(enqueued_from=world.now - HOUR, enqueued_before=world.now) == [second]


def test_by_dead_letter(world: World) -> None:
    opened, replayed, discarded = world.failed(), world.failed(), world.failed()
    world.succeeded()
    ok(world.discard(discarded))
    ok(world.replay(replayed, world.id()))
    assert world.query(dead_letter=Disposition.OPEN) == [opened]
    assert world.query(dead_letter=Disposition.REPLAYED) == [replayed]
    assert world.query(dead_letter=Disposition.DISCARDED) == [discarded]


def test_pages_of_a_filter(world: World) -> None:
    wanted = []
    for _ in range(5):
        wanted.append(world.add(labels={"team": "crm"}))
        world.add_many(3)
    assert world.query(labels={"team": "crm"}, limit=2) == wanted[::-1]
