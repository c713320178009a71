"""A PostgreSQL store from outside: whether it is there, and what `tenure doctor` looks at around it: the server, its
settings, and who holds dead rows back.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.domain.errors import StoreError, Unsupported
from tenure.service.cli.checks import Check, ok, problem, warning
from tenure.stores.opening import open_store

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.health import Dead, Health, Holder

OLD_SECONDS = 60.0
OLD_TRANSACTIONS = 10_000
"""How old a view of the tables may be; the second where the server doesn't know its time."""
MANY_DEAD = 100_000


def on_server(url: str) -> bool:
    """Whether a URL names a PostgreSQL store."""
    return url.partition("://")[0] in ("postgresql", "postgres")


def missing_schema(url: str) -> str | None:
    """What a URL names, in words, if there is no schema yet."""
    open_store(url)  # refuses a URL that names no store, and says what is missing to use it
    from tenure.stores.sql.postgres.connection import Server, translated
    from tenure.stores.sql.postgres.migrate import check

    server = Server(url)
    with translated(server), server.connect() as connection:
        return None if check(connection, server) else server.shown


def server_checks(url: str) -> Iterator[Check]:
    """In order; what makes no sense any more after a problem is left out."""
    from tenure.stores.sql.postgres.health import examine

    try:
        health = examine(url)
    except (StoreError, Unsupported) as error:
        yield problem("server", str(error), "the message says what is in the way")
        return
    yield version_check(health.server_version)
    yield durability_check(health.settings)
    yield connections_check(health)
    yield autovacuum_check(health.settings)
    yield holders_check(health.holders, health.sees_all)
    yield schema_check(health)
    if health.needs <= health.known_schema <= health.schema:
        yield dead_check(health.dead)
        yield aside_check(health.aside)


def version_check(version: int) -> Check:
    return ok("server", f"PostgreSQL {version // 10_000}.{version % 10_000}")


def durability_check(settings: dict[str, str]) -> Check:
    """What a commit is worth."""
    for name, lost in (
        ("fsync", "a crash of the machine may destroy the database"),
        ("full_page_writes", "a crash of the machine may leave torn pages"),
        ("synchronous_commit", "a crash of the server loses the last moments of jobs and settlements"),
    ):
        if settings[name] == "off":
            return warning("durability", f"{name} is off: {lost}", f"ALTER SYSTEM SET {name} = on, and reload")
    standby = settings["synchronous_standby_names"]
    if standby and settings["synchronous_commit"] != "local":
        return ok("durability", f"what is committed survives power loss, and failover to {standby}")
    return ok("durability", "what is committed survives power loss; a failover may lose the last moments")


def connections_check(health: "Health") -> Check:
    most, used, wanted = health.connections, health.used, health.wanted
    said = f"{used} of {most} connections are taken; a process of Tenure holds up to {wanted}"
    advice = "raise max_connections, or lower the URL's connections= or the number of processes"
    if most < wanted:
        return problem("connections", said, advice)
    if most - used < wanted:
        return warning("connections", said, advice)
    return ok("connections", said)


def autovacuum_check(settings: dict[str, str]) -> Check:
    for name in ("autovacuum", "track_counts"):
        if settings[name] == "off":
            found = f"{name} is off: dead rows stay, and every call gets slower"
            return warning("autovacuum", found, f"ALTER SYSTEM SET {name} = on, and reload")
    return ok("autovacuum", "on")


def holders_check(holders: "list[Holder]", sees_all: bool) -> Check:
    """Dead rows are kept for whoever might still look at them."""
    old = [holder for holder in holders if is_old(holder)]
    if old:
        named = "; ".join(f"{holder.kind} {holder.name}, for {_age(holder)}" for holder in old[:5])
        return warning("oldest view", f"dead rows are kept for {named}", f"end it: {old[0].end}")
    if not sees_all:
        return ok("oldest view", "of this role's own sessions none is old; pg_read_all_stats would show the others'")
    oldest = "nobody has one" if not holders else f"it began {_age(holders[0])} ago"
    return ok("oldest view", oldest)


def is_old(holder: "Holder") -> bool:
    if holder.seconds is None:
        return holder.transactions > OLD_TRANSACTIONS
    return holder.seconds > OLD_SECONDS


def _age(holder: "Holder") -> str:
    if holder.seconds is None:
        return f"{holder.transactions:,} transactions"
    return f"{holder.seconds:,.0f} s"


def schema_check(health: "Health") -> Check:
    known = health.known_schema
    if health.needs > known:
        found = f"schema {health.schema}, this Tenure knows up to {known}"
        return problem("schema", found, "upgrade tenure before using it")
    if health.schema < known:
        return problem("schema", f"schema {health.schema}, this Tenure's is {known}", "run: tenure migrate")
    if health.schema > known:
        return ok("schema", f"schema {health.schema}, which this Tenure, made for {known}, can use")
    return ok("schema", f"schema {health.schema}")


def dead_check(tables: "list[Dead]") -> Check:
    full = [table for table in tables if table.dead > MANY_DEAD and table.dead > table.live]
    if full:
        named = ", ".join(f"{table.table} has {table.dead:,} dead rows beside {table.live:,}" for table in full)
        return warning("dead rows", named, "end the oldest view if there is one, then: VACUUM")
    most = max(tables, key=lambda table: table.dead, default=None)
    return ok("dead rows", "none" if most is None or not most.dead else f"{most.dead:,} in {most.table}, the most")


def aside_check(aside: list[str]) -> Check:
    if aside:
        advice = "look at the table quarantine; what was taken away is there, and can be put right or deleted"
        return warning("set aside", f"rows that can't be: {'; '.join(aside[:5])}", advice)
    return ok("set aside", "nothing")
