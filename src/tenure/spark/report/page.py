"""The page: one HTML file with everything in it. It asks nobody for anything, and a policy in it forbids that too."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from importlib import resources

import msgspec

from tenure.spark.report import charts, figures, words
from tenure.spark.report.charts import Chart
from tenure.spark.report.figures import FailureRow, Move, QueueRow, Side, TenantRow
from tenure.spark.report.markup import Html, as_json, joined, raw, tag
from tenure.spark.report.read import HOUR, Gold
from tenure.spark.report.storms import Storm, storms

TENANTS = 12
FAMILIES = 20
TYPES = 12
MOVES = 14
WORKERS = 20
USERS = 50
STORMS = 12
"""Rows that a table shows at most; what is left out is counted below it."""


class Asked(msgspec.Struct, frozen=True):
    """What the reader wants to see, and when the report is made."""

    lake: str
    zone: tzinfo
    zone_name: str
    target_seconds: float
    made_at: datetime
    tenant: str | None = None


class Page:
    """Puts a report together, section by section."""

    def __init__(self, gold: Gold, asked: Asked) -> None:
        self.gold, self.asked = gold, asked
        self.now, self.before = gold.now, gold.before
        self.span = words.span(gold.now.period.length)
        self.compares = figures.compares(gold)
        self.steps = figures.steps(gold.now, asked.zone)
        self.charts: list[Chart] = []
        daily = gold.now.period.length > figures.FINEST
        self.axis = charts.axis([step.at for step in self.steps], asked.zone, asked.zone_name, daily=daily)

    def html(self, echarts: str) -> str:
        """The whole file."""
        empty = self.now.hourly.num_rows == 0 and self.now.usage.num_rows == 0
        sections = [self._nothing()] if empty else [section() for _, _, section in self._sections()]
        page_js = _resource("page.js")
        drawn = () if empty else (raw("script", echarts), raw("script", page_js))
        data = raw(
            "script", as_json({chart.name: chart.option for chart in self.charts}), type="application/json", id="charts"
        )
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_policy(() if empty else (echarts, page_js))),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"Queue report, {self._range()}"),
            raw("style", _resource("page.css")),
        )
        body = tag("body", self._header(empty=empty), tag("main", *sections), self._footer(), data, *drawn)
        return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"

    def _sections(self) -> list[tuple[str, str, Callable[[], Html]]]:
        return [
            ("summary", "Summary", self._summary),
            ("throughput", "Throughput", self._throughput),
            ("latency", "Wait and run time", self._latency),
            ("heat", "Hours", self._heat),
            ("tenants", "Tenants", self._tenants),
            ("failures", "Failures", self._failures),
            ("storms", "Retry storms", self._storms),
            ("slowest", "Slowest types", self._slowest),
            ("changes", "What changed", self._changes),
            ("usage", "Usage", self._usage),
            ("workers", "Workers", self._workers),
            ("slots", "Slots needed", self._slots),
        ]

    # Around

    def _header(self, *, empty: bool) -> Html:
        whose = f" of tenant {self.asked.tenant}" if self.asked.tenant is not None else ""
        parts = [tag("h1", f"Queue report{whose}"), tag("p", self._range(), class_="period")]
        if not empty and not self.compares:
            parts.append(
                tag("p", f"The lake has nothing of {self.span.before}, so nothing is compared.", class_="note")
            )
        elif not empty and figures.begins_late(self.gold) and self.gold.first is not None:
            begins = words.dated(self.gold.first, self.asked.zone)
            said = f"The lake begins on {begins}: {self.span.before} isn't whole, and changes against it mislead."
            parts.append(tag("p", said, class_="note"))
        if not empty:
            links = [tag("a", title, href=f"#{id}") for id, title, _ in self._sections()]
            parts.append(tag("nav", *links, aria_label="Sections"))
        return tag("header", *parts)

    def _range(self) -> str:
        return f"{self._between(self.now.period.since, self.now.period.until)} ({self.asked.zone_name})"

    def _between(self, since: datetime, until: datetime) -> str:
        return f"{words.dated(since, self.asked.zone)} to {words.dated(until, self.asked.zone)}"

    def _footer(self) -> Html:
        gold, target = self.gold, self.asked.target_seconds
        reach = "nothing yet"
        if gold.first is not None and gold.last is not None:
            reach = self._between(gold.first, gold.last + HOUR)
        facts = {
            "Lake": self.asked.lake,
            "Reaches": f"{reach}; gold.hourly version {gold.version}" if gold.version is not None else reach,
            "Compared with": self._between(self.before.period.since, self.before.period.until),
            "Time zone": self.asked.zone_name,
            "SLO": f"a job ends well within {words.duration(self.gold.slo_ms)} of being due",
            "Target wait": words.duration(target * 1_000),
            "Percentiles": "of all attempts together, read from buckets of 2 % width: within 1 % of the exact value",
            "Made": self.asked.made_at.astimezone(self.asked.zone).strftime("%Y-%m-%d %H:%M"),
        }
        return tag(
            "footer", tag("dl", *(part for name, fact in facts.items() for part in (tag("dt", name), tag("dd", fact))))
        )

    def _nothing(self) -> Html:
        whose = f" of tenant {self.asked.tenant}" if self.asked.tenant is not None else ""
        said = f"The lake has no events{whose} between {self._range().replace(' to ', ' and ', 1)}."
        return tag("section", tag("h2", "Nothing happened"), _empty(said))

    def _moment(self, at: datetime) -> str:
        return words.moment(at, self.asked.zone)

    def _chart(self, chart: Chart, size: str = "") -> Html:
        self.charts.append(chart)
        return tag(
            "div",
            class_=f"chart {size}".strip(),
            id=f"chart-{chart.name}",
            role="img",
            aria_label=chart.label,
            data_x=chart.x,
            data_y=chart.y,
        )

    # Sections, in order

    def _summary(self) -> Html:
        now, before = figures.side(self.now), figures.side(self.before) if self.compares else None
        return tag(
            "section",
            tag("dl", *self._cards(now, before), class_="cards"),
            id="summary",
            class_="bare",
            aria_label="Summary",
        )

    def _cards(self, now: Side, before: Side | None) -> list[Html]:
        mine, theirs = now.totals, before.totals if before else None
        hours = self.now.period.length / timedelta(hours=1)
        share = mine.retries / mine.started if mine.started else None

        def counted(title: str, name: str, good: int, value: str | None = None) -> Html:
            count, old = getattr(mine, name), getattr(theirs, name) if theirs else None
            return self._card(title, value or words.count(count), words.change(count, old), good * _sign(count, old))

        def shared(title: str, mine: float | None, theirs: float | None) -> Html:
            return self._card(title, words.percent(mine), words.points(mine, theirs), _sign(mine, theirs, 0.001))

        wait = before.wait_p95 if before else None
        return [
            counted("Jobs succeeded", "succeeded", 0),
            self._card(
                "Succeeded an hour",
                words.number(mine.succeeded / hours),
                f"{words.count(mine.enqueued)} enqueued",
                0,
                plain=True,
            ),
            shared("Success rate", mine.success, theirs.success if theirs else None),
            shared(
                f"Within SLO of {words.duration(self.gold.slo_ms)}",
                mine.attained,
                theirs.attained if theirs else None,
            ),
            self._card(
                "Wait, p95", words.duration(now.wait_p95), words.change(now.wait_p95, wait), -_sign(now.wait_p95, wait)
            ),
            counted("Busy hours", "busy_ms", 0, words.number(mine.busy_ms / figures.HOUR_MS)),
            counted(f"Retries, {words.percent(share)} of attempts", "retries", -1),
            counted("Lease losses", "lease_losses", -1),
        ]

    def _card(self, title: str, value: str, change: str, better: int, *, plain: bool = False) -> Html:
        """`better` is 1 for a change for the better, -1 for one for the worse."""
        colour = {1: "better", -1: "worse"}.get(better)
        said = [change] if plain else [tag("b", change, class_=colour), f" vs {self.span.before}"]
        if not plain and change == words.NOTHING:
            said = [f"nothing in {self.span.before}" if self.compares else "nothing to compare with"]
        return tag(
            "div", tag("dt", title), tag("dd", value, class_="value"), tag("dd", *said, class_="change"), class_="card"
        )

    def _throughput(self) -> Html:
        before = figures.steps(self.before, self.asked.zone) if self.compares else None
        parts: list[Html] = [self._chart(charts.throughput(self.axis, self.steps, before, self.span))]
        parts.append(tag("h3", "Failed for good"))
        if any(step.totals.failed for step in self.steps):
            parts.append(self._chart(charts.failures(self.axis, self.steps), "low"))
        else:
            parts.append(_empty(f"No job failed in {self.span.this}."))
        return _section("throughput", "Throughput", "Jobs that succeeded, and beside them those that came in.", *parts)

    def _latency(self) -> Html:
        parts = []
        for measure, title, none in (("wait", "Wait", "No job was started"), ("run", "Run time", "No attempt ended")):
            seen = any(getattr(step, measure)[0] is not None for step in self.steps)
            drawn = (
                self._chart(charts.latency(self.axis, self.steps, measure))
                if seen
                else _empty(f"{none} in {self.span.this}.")
            )
            parts.append(tag("div", tag("h3", title), drawn))
        lead = "How long attempts waited after they were due, and how long they ran. Both scales are logarithmic."
        return _section("latency", "Wait and run time", lead, tag("div", *parts, class_="pair"))

    def _heat(self) -> Html:
        chart = charts.heat(figures.heat(self.now, self.asked.zone), self.asked.zone_name)
        return _section("heat", "Hours", "Attempts started per hour: when the load comes.", self._chart(chart, "tall"))

    def _tenants(self) -> Html:
        rows = figures.tenants(self.now, self.before, TENANTS)
        jobs = sum(row.totals.ended for row in rows) or 1
        columns = ["Tenant", ">Jobs ended", ">Share", ">Change", ">Busy", ">Wait p95", ">Failed", ">Failed share"]
        body = [self._tenant(row, jobs) for row in rows]
        return _section("tenants", "Tenants", "By jobs that ended.", _table("Tenants", columns, body))

    def _tenant(self, row: TenantRow, jobs: int) -> list[str]:
        totals, share = row.totals, row.totals.ended / jobs
        return [
            _name(row.tenant) if row.tenant is not None else tag("span", f"{row.members:,} others", class_="faint"),
            words.count(totals.ended),
            joined([words.percent(share), _bar(share)]),
            words.change(totals.ended, row.ended_before) if self.compares else words.NOTHING,
            words.hours(totals.busy_ms),
            words.duration(row.wait_p95),
            words.count(totals.failed),
            words.percent(totals.failed / totals.ended if totals.ended else None),
        ]

    def _failures(self) -> Html:
        rows = figures.failures(self.now, self.before)
        if not rows:
            return _section("failures", "Failures", "", _empty(f"No failures in {self.span.this}."))
        columns = ["Family and an example", ">Errors", ">Final", ">Change", "Job types", "First seen", "Last seen"]
        body = [self._failure(row) for row in rows[:FAMILIES]]
        rest = sum(row.n for row in rows[FAMILIES:])
        more = f"{len(rows) - FAMILIES:,} more families with {rest:,} errors are left out." if rest else ""
        lead = "Errors that read alike once numbers, ids and quoted values are taken out. Final ones ended their job."
        return _section("failures", "Failures", lead, _table("Failures", columns, body), _more(more), long=True)

    def _failure(self, row: FailureRow) -> list[str]:
        example = tag("code", _clipped(row.example or row.pattern, 400), class_="message")
        return [
            tag("div", tag("bdi", _clipped(row.family, 120) or "(no family)"), example, class_="wide"),
            words.count(row.n),
            words.count(row.final),
            words.change(row.n, row.before) if self.compares else words.NOTHING,
            _tags(row.types, 3),
            self._moment(row.first_at),
            self._moment(row.last_at),
        ]

    def _storms(self) -> Html:
        found = storms(self.now, self.before)
        lead = (
            "Hours in which a type was retried at least three times as often as usual, and for a fifth of its attempts."
        )
        parts = [self._chart(charts.retries(self.axis, self.steps, found), "low")]
        if not any(step.totals.retries for step in self.steps):
            self.charts.pop()
            return _section("storms", "Retry storms", lead, _empty(f"Nothing was retried in {self.span.this}."))
        if not found:
            return _section("storms", "Retry storms", lead, *parts, _empty(f"No retry storms in {self.span.this}."))
        columns = ["Job type", "From", "To", ">Attempts", ">Retries", ">Per attempt", ">Usually", "Families"]
        more = f"{len(found) - STORMS:,} smaller ones are left out." if len(found) > STORMS else ""
        body = [self._storm(storm) for storm in found[:STORMS]]
        return _section("storms", "Retry storms", lead, *parts, _table("Retry storms", columns, body), _more(more))

    def _storm(self, storm: Storm) -> list[str]:
        return [
            _name(storm.job_type),
            self._moment(storm.since),
            self._moment(storm.until),
            words.count(storm.started),
            words.count(storm.retries),
            words.number(storm.share),
            words.number(storm.usual),
            _tags(storm.families, 3),
        ]

    def _slowest(self) -> Html:
        rows = figures.types(self.now, self.before, TYPES)
        if not rows:
            return _section("slowest", "Slowest types", "", _empty(f"No attempt ended in {self.span.this}."))
        busy = self.now.totals().busy_ms or 1
        columns = ["Job type", ">Runs", ">Run p50", ">Run p95", ">Change of p95", ">Busy", ">Share of busy time"]
        body = [
            [
                _name(row.job_type),
                words.count(row.runs),
                words.duration(row.p50),
                words.duration(row.p95),
                words.change(row.p95, row.p95_before),
                words.hours(row.busy_ms),
                joined([words.percent(row.busy_ms / busy), _bar(row.busy_ms / busy)]),
            ]
            for row in rows
        ]
        return _section(
            "slowest", "Slowest types", "By the p95 of their run time.", _table("Slowest types", columns, body)
        )

    def _changes(self) -> Html:
        title, id = f"What changed since {self.span.before}", "changes"
        if not self.compares:
            return _section(id, title, "", _empty(f"The lake has nothing of {self.span.before} to compare with."))
        found = figures.changes(self.now, self.before, MOVES)
        columns = ["What", "Name", "Measure", ">Before", ">Now", ">Change"]
        body = [_move(move) for move in found.moves]
        moves = _table("Largest moves", columns, body) if body else _empty("Nothing moved by a quarter or more.")
        lead = "The largest moves, by how far they went and how many jobs they are about."
        return _section(
            id,
            title,
            lead,
            moves,
            self._families("New failures", "new", found.new_failures, "No new failures."),
            self._families("Failures that are gone", "gone", found.gone_failures, "No failure went away."),
        )

    def _families(self, title: str, mark: str, rows: Sequence[FailureRow], none: str) -> Html:
        if not rows:
            return joined([tag("h3", title), _empty(none)])
        body = [
            [
                tag("span", mark, class_=f"tag {mark}"),
                tag(
                    "div",
                    tag("bdi", _clipped(row.family, 120)),
                    tag("code", _clipped(row.pattern, 200), class_="message"),
                    class_="wide",
                ),
                words.count(row.n),
                _tags(row.types, 3),
                self._moment(row.first_at if mark == "new" else row.last_at),
            ]
            for row in rows[:8]
        ]
        seen = "First seen" if mark == "new" else "Last seen"
        more = f"{len(rows) - 8:,} more are left out." if len(rows) > 8 else ""
        return joined(
            [tag("h3", title), _table(title, ["", "Family", ">Errors", "Job types", seen], body), _more(more)]
        )

    def _usage(self) -> Html:
        rows = figures.usage(self.now, self.before)
        if not rows:
            return _section("usage", "Usage", "", _empty(f"No attempt ended in {self.span.this}."))
        busy = sum(row.busy_ms for row in rows) or 1
        columns = ["Tenant", ">Attempts", ">Busy seconds", ">Busy hours", ">Share", ">Change"]
        body = [
            [
                _name(row.tenant),
                f"{row.attempts:,}",
                words.seconds(row.busy_ms),
                words.number(row.busy_ms / figures.HOUR_MS),
                joined([words.percent(row.busy_ms / busy), _bar(row.busy_ms / busy)]),
                words.change(row.busy_ms, row.busy_ms_before) if self.compares else words.NOTHING,
            ]
            for row in rows[:USERS]
        ]
        lead = (
            f"Time that attempts ran within the period, in all {words.seconds(busy)} busy seconds. "
            "Attempts that still run aren't in it."
        )
        rest = rows[USERS:]
        more = (
            f"{len(rest):,} more tenants with {words.seconds(sum(row.busy_ms for row in rest))} busy seconds."
            if rest
            else ""
        )
        return _section("usage", "Usage", lead, _table("Usage", columns, body), _more(more), long=True)

    def _workers(self) -> Html:
        rows = figures.workers(self.now)
        if not rows:
            return _section("workers", "Workers", "", _empty(f"No worker ended an attempt in {self.span.this}."))
        busy = figures.busy_slots(self.now)
        hourly = charts.axis(list(busy), self.asked.zone, self.asked.zone_name, daily=False)
        columns = ["Worker", ">Attempts", ">Hours at work", ">Busy slots, mean", ">Busy slots, busiest hour"]
        body = [
            [
                _name(row.worker),
                words.count(row.attempts),
                words.count(row.hours),
                words.number(row.slots),
                words.number(row.peak_slots),
            ]
            for row in rows[:WORKERS]
        ]
        more = f"{len(rows) - WORKERS:,} less busy ones are left out." if len(rows) > WORKERS else ""
        lead = (
            f"{'One worker' if len(rows) == 1 else f'{len(rows):,} workers'} ended attempts. Busy slots are attempts "
            "that ran at once, on average over an hour; the mean is over the hours in which a worker did anything."
        )
        return _section(
            "workers",
            "Workers",
            lead,
            self._chart(charts.slots(hourly, list(busy.values())), "low"),
            _table("Workers", columns, body),
            _more(more),
        )

    def _slots(self) -> Html:
        rows = figures.queues(self.now, self.asked.target_seconds)
        target = words.duration(self.asked.target_seconds * 1_000)
        columns = [
            *(
                "Queue",
                ">Busy slots, mean",
                "Busiest hour",
                ">Arrivals a second",
                ">Run time, mean",
                ">Run time, variability",
            ),
            *(">Busy slots then", ">Wait p95 then", ">Slots needed", ">Share of them busy", ">Wait p95 expected"),
        ]
        lead = (
            f"So that 95 % of attempts wait at most {target}, from what was measured in each queue's busiest hour. "
            "Assumed: arrivals at random within the hour (retries and jobs that came back are arrivals too), run times "
            "as measured (variability is variance over squared mean: 0 if all are equal, 1 if exponential), and slots "
            "that serve the queue alone (an M/G/c by Allen and Cunneen, exact for exponential run times). Bursts, "
            "priorities, and limits or rates set on the queue aren't in it: where a limit holds jobs back, more slots "
            "won't help."
        )
        return _section(
            "slots",
            "How many slots each queue needs",
            lead,
            _table("Slots needed", columns, [self._queue(row) for row in rows]),
        )

    def _queue(self, row: QueueRow) -> list[str]:
        late = row.wait_p95 is not None and row.wait_p95 > self.asked.target_seconds * 1_000
        return [
            _name(row.queue),
            words.number(row.mean_busy_slots),
            self._moment(row.hour),
            words.number(row.load.per_second),
            words.duration(row.load.service_seconds * 1_000),
            words.number(row.load.variability),
            words.number(row.busy_slots),
            tag("span", words.duration(row.wait_p95), class_="worse" if late else None),
            tag("span", words.count(row.needed.slots), class_="strong"),
            words.percent(row.needed.utilisation),
            words.duration(row.needed.p95_wait_seconds * 1_000),
        ]


# Parts


def _section(id: str, title: str, lead: str, *parts: Html, long: bool = False) -> Html:
    said = [tag("p", lead, class_="lead")] if lead else []
    return tag("section", tag("h2", title), *said, *parts, id=id, class_="long" if long else None)


def _empty(said: str) -> Html:
    return tag("p", said, class_="empty")


def _more(said: str) -> Html:
    return tag("p", said, class_="lead") if said else Html("")


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A column whose title starts with `>` is aligned to the right; the first names its row."""
    sides = ["right" if column.startswith(">") else None for column in columns]
    head = [
        tag("th", column.lstrip(">"), scope="col", class_=side) for column, side in zip(columns, sides, strict=True)
    ]
    body = [
        tag("tr", *(_cell(index, cell, side) for index, (cell, side) in enumerate(zip(row, sides, strict=True))))
        for row in rows
    ]
    drawn = tag("table", tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(index: int, cell: str, side: str | None) -> Html:
    return tag("th", cell, scope="row") if index == 0 else tag("td", cell, class_=side)


def _name(name: str) -> Html:
    return tag("div", tag("bdi", name), class_="name", title=name)


def _bar(share: float) -> Html:
    return tag("span", tag("i", style=f"width:{min(max(share, 0), 1):.1%}"), class_="bar", aria_hidden="true")


def _tags(names: Sequence[str], most: int) -> Html:
    rest = [tag("span", f"+{len(names) - most}", class_="tag faint")] if len(names) > most else []
    return joined([*(tag("span", name, class_="tag", title=name) for name in names[:most]), *rest])


def _clipped(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _move(move: Move) -> list[str]:
    shown: dict[str, Callable[[float], str]] = {"jobs": words.count, "failed": words.percent}
    form = shown.get(move.measure, words.duration)
    before, now = (words.NOTHING if value is None else form(value) for value in (move.before, move.now))
    change = (words.points if move.measure == "failed" else words.change)(move.now, move.before)
    better = 0 if move.measure == "jobs" else -_sign(move.now, move.before)
    colour = {1: "better", -1: "worse"}.get(better)
    title = {"jobs": "jobs ended", "failed": "failed share"}.get(move.measure, move.measure)
    return [move.kind, _name(move.name), title, before, now, tag("span", change, class_=colour)]


def _sign(now: float | None, before: float | None, least: float = 0.05) -> int:
    """Which way something went; 0 if by less than `least` of it, which isn't worth a colour."""
    if now is None or before is None or abs(now - before) < least * max(now, before):
        return 0
    return (now > before) - (now < before)


def _policy(scripts: Sequence[str]) -> str:
    """Only these scripts run, and nothing is loaded from anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    rules = ("default-src 'none'", f"script-src {allowed}", "style-src 'unsafe-inline'", "img-src data:")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
