"""Row-level security with real roles: a tenant's connection sees its own rows, on every table, and nothing else."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tenure import Context, Jobs, Tenure
from tenure.domain.calls import Cancel, CommandReply, Enqueued, JobFilter
from tenure.domain.errors import JobNotFound, Refused, StoreUnavailable
from tenure.domain.job import NewJob, Parent
from tenure.domain.states import Mode
from tenure.service.cli.main import main as command
from tenure.stores.sql.postgres import PostgresStore
from tenure.stores.sql.postgres.migrate import SCHEMA
from tenure.testing.postgres import PostgresServer

PATIENCE = 60.0
OPEN = {"meta": ["SELECT"], "ended": ["INSERT", "SELECT"]}
"""What a tenant may do on tables that are nobody's."""
CLOSED = {"claimed", "identity", "quarantine"}
BESIDE = ("finished", "result", "attached")
"""Tables whose rows are of their job's tenant."""

ROLES = """
CREATE ROLE keeper LOGIN CREATEROLE;
GRANT CREATE ON DATABASE tenure TO keeper;
CREATE ROLE clerk LOGIN;
CREATE ROLE hand LOGIN;
"""

jobs = Jobs()


@jobs.job
async def greet(name: str) -> str:
    return f"hello {name}"


@jobs.job
async def stumble(ctx: Context) -> None:
    raise ValueError("no")


class Site:
    """A server with a keeper, who owns the tables, a hand of the fleet, and a clerk of a tenant."""

    def __init__(self, server: PostgresServer) -> None:
        self._url = server.url

    def url(self, role: str, tenant: str | None = None) -> str:
        options = "" if tenant is None else f"?options=-c%20tenure.tenant%3D{tenant}"
        return self._url.replace("tenure@", f"{role}@") + options

    def ask(self, role: str, question: str, tenant: str | None = None) -> list[Any]:
        with psycopg.connect(self.url(role, tenant), autocommit=True) as db:
            cursor = db.execute(question.encode())
            return cursor.fetchall() if cursor.description else [cursor.rowcount]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    server = PostgresServer()
    try:
        with psycopg.connect(server.url) as db:
            db.execute(ROLES)
        made = Site(server)
        assert command(["migrate", "--row-security", "--url", made.url("keeper")]) == 0
        with psycopg.connect(server.url) as db:
            db.execute("GRANT tenure_tenant TO clerk; GRANT tenure_fleet TO hand")
        asyncio.run(fill(made))
        yield made
    finally:
        server.remove()


async def fill(site: Site) -> None:
    """Two tenants with rows in every table."""
    app = Tenure(site.url("hand"))
    app.include(jobs)
    async with app:
        store = await app.store()
        await app.queue("lanes").configure(mode=Mode.KEYED.value, group_rate="100/s", group_limit=1)
        for tenant in ("acme", "globex"):
            home = app.tenant(tenant)
            await home.queue("mail").configure(weight=2)
            await home.enqueue(greet.options(labels={"a": "b"}).build("you"))
            await home.enqueue(stumble.options(max_attempts=1).build())
        async with app.worker() as worker:
            await worker.idle()
        for tenant in ("acme", "globex"):
            home = app.tenant(tenant)
            await home.enqueue(greet.options(delay=3_600, expires=7_200, key="k").build("later"))
            await home.enqueue(greet.options(queue="lanes", group="g").build("in line"))
            handle = await home.enqueue(greet.build("first"))
            child = greet.build("second")
            flow = home.flow()
            flow.add(child, after=[flow.add(greet.build("parent"))])
            await flow.enqueue()
            assert handle.created
        await store.events(limit=1)  # numbers them
        await app.tenant("globex").enqueue(greet.build("unnumbered"))


def tables(site: Site) -> list[str]:
    return [
        row[0]
        for row in site.ask(
            "keeper",
            "SELECT relname FROM pg_class WHERE relnamespace = 'tenure'::regnamespace AND relkind = 'r' "
            "AND relname <> 'migration' ORDER BY 1",
        )
    ]


def columns(site: Site, table: str) -> set[str]:
    question = f"SELECT attname FROM pg_attribute WHERE attrelid = 'tenure.{table}'::regclass AND attnum > 0"
    return {row[0] for row in site.ask("keeper", question)}


def test_everything_is_forced_and_nobody_bypasses(site: Site) -> None:
    question = (
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'tenure'::regnamespace AND relkind = 'r' "
        "AND relname <> 'migration' AND NOT (relrowsecurity AND relforcerowsecurity)"
    )
    assert site.ask("keeper", question) == [(0,)]
    roles = "('tenure_fleet', 'tenure_tenant', 'keeper', 'clerk', 'hand')"
    assert site.ask("keeper", f"SELECT bool_or(rolbypassrls OR rolsuper) FROM pg_roles WHERE rolname IN {roles}") == [
        (False,)
    ]
    owned = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'tenure'::regnamespace AND prosecdef"
    assert site.ask("keeper", owned) == [(0,)]


def test_a_tenant_sees_its_own_on_every_table(site: Site) -> None:
    seen = set()
    for table in tables(site):
        has = columns(site, table)
        if "tenant" not in has and table not in BESIDE:
            assert table in OPEN or table in CLOSED, table
            continue
        of = "t.tenant" if "tenant" in has else "(SELECT tenant FROM tenure.job AS j WHERE j.seq = t.seq)"
        question = f"SELECT {of} AS of, count(*) FROM tenure.{table} AS t GROUP BY 1"
        everyone = dict(site.ask("hand", question))
        assert dict(site.ask("keeper", question)) == everyone
        common = {"*": everyone["*"]} if table == "document" else {}
        acme = {"acme": everyone["acme"]} if "acme" in everyone else {}
        assert dict(site.ask("clerk", question, "acme")) == acme | common, table
        assert dict(site.ask("clerk", question)) == common, table
        if len(everyone) > 1:
            seen.add(table)
    assert seen >= {
        *("job", "ready", "scheduled", "blocked", "finished", "label", "binding", "edge", "dead_letter", "result"),
        *("document", "feed", "in_order", "expiring", "attached"),
    }
    assert {row[0] for row in site.ask("clerk", "SELECT DISTINCT tenant FROM tenure.record", "acme")} == {"acme"}


def test_a_tenant_changes_nothing_of_others(site: Site) -> None:
    for table in tables(site):
        has = columns(site, table)
        if "tenant" in has and table != "feed":
            assert site.ask("clerk", f"DELETE FROM tenure.{table} WHERE tenant <> 'acme'", "acme") == [0]
            assert site.ask("clerk", f"UPDATE tenure.{table} SET tenant = 'acme' WHERE tenant <> 'acme'", "acme") == [0]
    for theirs in (
        "UPDATE tenure.job SET tenant = 'globex'",
        "INSERT INTO tenure.inbox (tenant, at, body) VALUES ('globex', 0, '')",
        "INSERT INTO tenure.finished SELECT 1000000, 0, 'failed', 1, ''",
        "INSERT INTO tenure.attached SELECT 1000000, 'traceback', '1', ''",
        "INSERT INTO tenure.feed VALUES (1000000, 'acme', 0, '')",
        "DELETE FROM tenure.feed",
        "UPDATE tenure.meta SET frozen = true",
        "DELETE FROM tenure.ended",
        "BEGIN; LOCK TABLE tenure.meta IN EXCLUSIVE MODE",
        "INSERT INTO tenure.migration (number, needs) VALUES (7, 1)",
        "CREATE TABLE tenure.mine (x int)",
        *(f"SELECT 1 FROM tenure.{table}" for table in sorted(CLOSED)),
    ):
        with pytest.raises(InsufficientPrivilege):
            site.ask("clerk", theirs, "acme")
    assert site.ask("clerk", "UPDATE tenure.meta SET one = 1", "acme") == [0]


def new(number: int, tenant: str = "acme", **fields: Any) -> NewJob:
    id = f"01900000-0000-7000-8000-{number:012x}"
    return NewJob(tenant=tenant, id=id, queue="default", job_type="greet", payload=b'{"name":"x"}', **fields)


def test_a_tenants_store_enqueues_reads_and_cancels_its_own(site: Site) -> None:
    async def main() -> None:
        store = PostgresStore(site.url("clerk", "acme"))
        assert await store.migrate() == SCHEMA
        batch = [new(1), new(2, key="two", labels={"x": "y"}), new(3, delay=9_000, expires=10_000)]
        assert await store.enqueue(batch) == [Enqueued(job.id) for job in batch]
        family = [new(4), new(5, parents=(Parent(new(4).id),))]
        assert await store.enqueue(family, atomic=True) == [Enqueued(job.id) for job in family]
        assert await store.enqueue([new(1)]) == [Enqueued(new(1).id)]
        page = await store.query(JobFilter())
        assert {view.job.spec.tenant for view in page.jobs} == {"acme"}
        theirs = site.ask("hand", "SELECT tenant, id FROM tenure.job WHERE tenant = 'globex' LIMIT 1")[0]
        assert await store.get([theirs]) == [JobNotFound()]
        (reply,) = await store.command([Cancel(tenant="acme", id=new(4).id)])
        assert isinstance(reply, CommandReply)
        (refused,) = await store.command([Cancel(tenant="globex", id=theirs[1])])
        assert refused == JobNotFound()
        events = await store.events(tenant="acme")
        assert not isinstance(events, Refused)
        with pytest.raises(StoreUnavailable, match="row-level security"):
            await store.enqueue([new(9, tenant="globex")])
        await store.close()

    asyncio.run(main())


def test_a_tenant_enqueues_in_its_own_transaction_and_the_fleet_works(site: Site) -> None:
    async def main() -> None:
        app = Tenure(site.url("clerk", "acme"))
        app.include(jobs)
        fleet = Tenure(site.url("hand"))
        fleet.include(jobs)
        async with fleet, fleet.worker():
            async with await psycopg.AsyncConnection.connect(site.url("clerk")) as shop:
                await shop.execute("SET LOCAL tenure.tenant = 'acme'")
                handle = await app.tenant("acme").enqueue(greet.options(connection=shop).build("you"))
            assert await handle.result(timeout=PATIENCE) == "hello you"
            with pytest.raises(StoreUnavailable, match="row-level security"):
                async with await psycopg.AsyncConnection.connect(site.url("clerk")) as shop:
                    await shop.execute("SET LOCAL tenure.tenant = 'globex'")
                    await app.tenant("acme").enqueue(greet.options(connection=shop).build("you"))
        await app.close()
        store = PostgresStore(site.url("hand"))
        assert await store.verify() == []
        await store.close()

    asyncio.run(main())


def test_other_stores_have_no_such_thing(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["migrate", "--row-security", "--url", f"sqlite:///{tmp_path}/jobs.db"]) != 0
    assert "a sqlite store has none" in capsys.readouterr().err
