"""The report as a file: what is in it, what can't get out of it, and what it says when there is nothing."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tenure.domain.errors import InvalidValue, NotReady
from tenure.spark.report import drawing, words, write_report
from tenure.spark.report.markup import as_json, raw, tag, text
from tests.look import HOSTILE, Hostile
from tests.spark.gold import HOUR, MONDAY, Lake, shop

VOID = {"meta"}


class Parsed(HTMLParser):
    """A page taken apart: its elements, its texts, and whether every element was closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append((self.tags[-1][1], data))
        elif inside in ("h1", "h2", "h3"):
            self.headings.append(data)
        if inside not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def charts(self) -> dict[str, Any]:
        (data,) = [data for attributes, data in self.scripts if attributes.get("id") == "charts"]
        found: dict[str, Any] = json.loads(data)
        return found

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def written(lake: Lake, path: Path, **options: Any) -> str:
    return write_report(lake.write(path / "lake"), path / "report.html", **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(shop(), tmp_path_factory.mktemp("page"), tz="Europe/Berlin")


def test_the_sections_are_in_order(page: str) -> None:
    parsed = Parsed(page)
    assert parsed.headings == [
        "Queue report",
        "Throughput",
        "Failed for good",
        "Wait and run time",
        "Wait",
        "Run time",
        "Hours",
        "Tenants",
        "Failures",
        "Retry storms",
        "Slowest types",
        "What changed since the week before",
        "New failures",
        "Failures that are gone",
        "Usage",
        "Workers",
        "How many slots each queue needs",
    ]
    ids = {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}
    assert {f"#{id}" for id in ids} >= {link["href"] for link in parsed.named("a")}


def test_the_summary_compares_with_the_week_before(page: str) -> None:
    cards = Parsed(page).text.split("Slots needed ")[1].split("Throughput")[0]
    for title in (
        "Jobs succeeded",
        "Success rate",
        "Within SLO of 1 min",
        "Wait, p95",
        "Busy hours",
        "Retries",
        "Lease losses",
    ):
        assert title in cards
    assert cards.count("vs the week before") == 7


def test_the_footer_says_what_the_report_is_about(page: str) -> None:
    said = Parsed(page).text
    assert "Mon 2 Nov 2026, 01:00 to Mon 9 Nov 2026, 01:00 (Europe/Berlin)" in said
    assert "Compared with Mon 26 Oct 2026, 01:00 to Mon 2 Nov 2026, 01:00" in said
    assert "gold.hourly version 1" in said
    assert "Time zone Europe/Berlin" in said
    assert "SLO a job ends well within 1 min of being due" in said


def test_every_chart_is_described_and_names_its_axes(page: str) -> None:
    parsed = Parsed(page)
    drawn = {str(one["id"]): one for one in parsed.named("div") if str(one.get("class", "")).startswith("chart")}
    assert [id.removeprefix("chart-") for id in drawn] == list(parsed.charts)
    assert list(parsed.charts) == ["throughput", "failures", "wait", "run", "heat", "retries", "slots"]
    for name, option in parsed.charts.items():
        described = drawn[f"chart-{name}"]
        assert described["role"] == "img"
        assert described["aria-label"]
        assert option["xAxis"]["name"] == described["data-x"]
        assert option["yAxis"]["name"] == described["data-y"]


def test_failures_have_a_panel_of_their_own(page: str) -> None:
    charts = Parsed(page).charts
    assert {one["name"] for one in charts["throughput"]["series"]} == {
        "enqueued",
        "succeeded",
        "succeeded, the week before",
    }
    assert [one["name"] for one in charts["failures"]["series"]] == ["failed"]
    assert all("stack" not in one for chart in charts.values() for one in chart["series"])


def test_the_heat_map_has_monday_first(page: str) -> None:
    chart = Parsed(page).charts["heat"]
    assert chart["yAxis"]["data"] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert chart["yAxis"]["inverse"]
    assert len(chart["series"][0]["data"]) == 168


def test_tables_are_tables(page: str) -> None:
    parsed = Parsed(page)
    assert len(parsed.named("table")) == len(parsed.named("caption")) == 9
    assert all(head["scope"] in ("col", "row") for head in parsed.named("th"))


# Nothing goes out, nothing gets in


def test_the_page_loads_nothing(page: str) -> None:
    parsed = Parsed(page)
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "source"}
    assert not any({"src", "srcset", "data", "action"} & attributes.keys() for _, attributes in parsed.tags)
    assert all(str(link["href"]).startswith("#") for link in parsed.named("a"))
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_only_its_own_scripts_may_run(page: str) -> None:
    parsed = Parsed(page)
    (policy,) = [str(one["content"]) for one in parsed.named("meta") if one.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    programs = [data for attributes, data in parsed.scripts if "type" not in attributes]
    digests = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    assert rules["script-src"] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert len(digests) == 2


def test_no_attribute_runs_anything(page: str) -> None:
    assert not [name for _, attributes in Parsed(page).tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_texts_are_texts(words: str, tmp_path: Path) -> None:
    plain = Parsed(written(Hostile("a plain name"), tmp_path / "plain"))
    hostile = Parsed(written(Hostile(words), tmp_path / "hostile"))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert [sorted(attributes) for _, attributes in hostile.tags] == [
        sorted(attributes) for _, attributes in plain.tags
    ]
    assert len(hostile.scripts) == len(plain.scripts) == 3
    shown = words.replace("\u202e", "\ufffd")[:100]
    assert any(shown in one for one in hostile.texts)


def test_json_for_a_script_can_not_end_it() -> None:
    value = {"<!--": "</script>\u2028\u2029&amp;\"'\x00 ü"}
    made = as_json(value)
    assert json.loads(made) == value
    assert made.isascii()
    assert not set("<>&") & set(made)


def test_texts_are_escaped_wherever_they_stand() -> None:
    assert tag("p", "<b>", tag("b", "&"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;<b>&amp;</b></p>'
    assert text("a\x00b\x1b[31m\u202ec\nd") == "a\ufffdb\ufffd[31m\ufffdc\nd"
    with pytest.raises(AssertionError):
        raw("script", "x </SCRIPT> y")


# Nothing to say


def test_an_empty_lake(tmp_path: Path) -> None:
    parsed = Parsed(written(Lake(), tmp_path, since="2026-11-02", until="2026-11-09"))
    assert parsed.headings == ["Queue report", "Nothing happened"]
    assert "no events between Mon 2 Nov 2026, 00:00 and Mon 9 Nov 2026, 00:00 (UTC)" in parsed.text
    assert [attributes for attributes, _ in parsed.scripts] == [{"type": "application/json", "id": "charts"}]
    assert parsed.charts == {}


def test_a_tenant_that_has_nothing(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, succeeded=1)
    assert "no events of tenant nobody between" in Parsed(written(lake, tmp_path, tenant="nobody")).text


def test_a_quiet_week(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, enqueued=1)
    parsed = Parsed(written(lake, tmp_path, since=MONDAY, days=7))
    for said in (
        "The lake has nothing of the week before, so nothing is compared.",
        "No job failed in this week.",
        "No job was started in this week.",
        "No attempt ended in this week.",
        "No failures in this week.",
        "Nothing was retried in this week.",
        "The lake has nothing of the week before to compare with.",
        "No worker ended an attempt in this week.",
    ):
        assert said in parsed.text
    assert list(parsed.charts) == ["throughput", "heat"]


def test_a_lake_of_one_hour(tmp_path: Path) -> None:
    lake = Lake()
    lake.hour(MONDAY, enqueued=2, started=2, succeeded=2, busy_ms=9)
    lake.durations(MONDAY, "wait", [1, 2])
    lake.durations(MONDAY, "run", [4, 5])
    parsed = Parsed(written(lake, tmp_path))
    assert "Mon 2 Nov 2026, 00:00 to Mon 2 Nov 2026, 01:00 (UTC)" in parsed.text
    assert "No failures in this hour." in parsed.text
    assert parsed.charts["throughput"]["xAxis"]["data"] == ["Mon 2 Nov 00:00"]


def test_a_week_before_that_is_not_whole(tmp_path: Path) -> None:
    lake = Lake()
    for day in range(-2, 7):
        lake.hour(MONDAY + timedelta(days=day), succeeded=10)
    lake.hour(MONDAY + timedelta(days=7) - HOUR, succeeded=1)
    said = Parsed(written(lake, tmp_path)).text
    assert "The lake begins on Sat 31 Oct 2026, 00:00: the week before isn't whole" in said


# What is asked for


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"since": "2026-11-03", "days": 1}, "Tue 3 Nov 2026, 00:00 to Wed 4 Nov 2026, 00:00 (UTC)"),
        ({"until": "2026-11-03T08:20"}, "Tue 27 Oct 2026, 08:00 to Tue 3 Nov 2026, 09:00 (UTC)"),
        (
            {"since": "2026-11-03", "until": "2026-11-04", "tz": "America/New_York"},
            "Tue 3 Nov 2026, 00:00 to Wed 4 Nov 2026, 00:00 (America/New_York)",
        ),
        (
            {"since": "2026-11-03T00:00+05:30", "until": datetime(2026, 11, 4, tzinfo=UTC), "tz": "Asia/Kolkata"},
            "Mon 2 Nov 2026, 23:30 to Wed 4 Nov 2026, 05:30 (Asia/Kolkata)",
        ),
    ],
)
def test_periods(asked: dict[str, Any], shown: str, tmp_path: Path) -> None:
    assert shown in Parsed(written(Lake(), tmp_path, **asked)).text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tz": "Mars/Olympus"}, "time zone 'Mars/Olympus': give a name such as"),
        ({"tz": "../etc/passwd"}, "time zone '../etc/passwd'"),
        ({"since": "yesterday"}, "since 'yesterday': give a day or a time"),
        ({"since": "2026-11-03", "until": "2026-11-03"}, "give an hour to 366 days"),
        ({"since": "2020-11-03", "until": "2026-11-03"}, "give an hour to 366 days"),
        ({"since": "2026-11-03", "until": "2026-11-04", "days": 1}, "give two of them at most"),
        ({"days": 0}, "days 0: give a number from 1 to 366"),
        ({"target_wait": float("nan")}, "target wait nan"),
    ],
)
def test_what_can_not_be_asked_for(asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=re.escape(said)):
        written(Lake(), tmp_path, **asked)


def test_a_report_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    lake = Lake().write(tmp_path / "lake")
    with pytest.raises(InvalidValue, match="can't be written: No such file or directory"):
        write_report(lake, tmp_path / "nowhere" / "report.html")
    (tmp_path / "taken").mkdir()
    with pytest.raises(InvalidValue, match="can't be written: Is a directory"):
        write_report(lake, tmp_path / "taken")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["lake", "taken"]


# ECharts


def test_without_echarts_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drawing, "PLACES", (("tenure_has_no_such_package", "*.js"),))
    with pytest.raises(NotReady, match=r"tenure_has_no_such_package.*pip install 'tenure\[spark\]'"):
        written(Lake(), tmp_path)


@pytest.mark.parametrize(
    ("program", "said"),
    [('t.version="5.4.3"', "isn't ECharts 5.5 or newer"), ("", "isn't"), ('t.version="6.0.0";"</script>"', "a tag")],
)
def test_an_echarts_that_can_not_be_used(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pencils").mkdir()
    (tmp_path / "pencils" / "__init__.py").touch()
    (tmp_path / "pencils" / "echarts.min.js").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(drawing, "PLACES", (("pencils", "*.js"),))
    with pytest.raises(NotReady, match=said):
        drawing.echarts()


# Words


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.duration(None), "–"),
        (words.duration(12.4), "12 ms"),
        (words.duration(1_440), "1.44 s"),
        (words.duration(90_000), "1.5 min"),
        (words.duration(5 * 3_600_000), "5 h"),
        (words.duration(120 * 86_400_000), "120 d"),
        (words.percent(1.0), "100 %"),
        (words.percent(0.99999), "99.99 %"),
        (words.percent(0.00001), "0.01 %"),
        (words.percent(0.5), "50 %"),
        (words.count(1_234), "1,234"),
        (words.count(12_345_678), "12.35 M"),
        (words.number(0.001), "< 0.01"),
        (words.number(12.34), "12.3"),
        (words.change(112, 100), "+12 %"),
        (words.change(95, 100), "−5 %"),
        (words.change(100, 100), "±0 %"),
        (words.change(340, 100), "×3.4"),
        (words.change(3, 0), "new"),
        (words.change(0, 3), "gone"),
        (words.change(0, 0), "–"),
        (words.change(1, None), "–"),
        (words.points(0.98, 0.984), "−0.4 points"),
        (words.points(0.98, 0.98), "±0 points"),
        (words.points(None, 0.98), "–"),
        (words.span(timedelta(days=7)).before, "the week before"),
        (words.span(timedelta(days=3)).this, "these 3 days"),
        (words.span(timedelta(days=1)).this, "these 24 hours"),
        (words.span(timedelta(hours=5)).before, "the 5 hours before"),
    ],
)
def test_words(said: str, expected: str) -> None:
    assert said == expected


def test_only_what_is_worth_it_has_a_colour(tmp_path: Path) -> None:
    lake = Lake()
    for at, failed, retries in ((MONDAY, 100, 102), (MONDAY + HOUR, 300, 100)):
        lake.hour(at, started=10_000, succeeded=10_000 - failed, failed=failed, retries=retries, lease_losses=retries)
    page = written(lake, tmp_path, since=MONDAY + HOUR, until=MONDAY + 2 * HOUR)
    assert '<b class="worse">−2.0 points</b>' in page
    assert page.count("<b>−2 %</b>") == 3
