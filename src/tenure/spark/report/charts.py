"""The charts of a report as ECharts options: JSON in which `$name` is a colour and `@name` a format of the page."""

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from tenure.spark.report import words
from tenure.spark.report.figures import Step
from tenure.spark.report.storms import Storm

Option = dict[str, Any]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PERCENTILES = ("p50", "p95", "p99")


class Chart(msgspec.Struct, frozen=True):
    """A chart: what it shows in words, the names of its axes, and what ECharts draws."""

    name: str
    label: str
    x: str
    y: str
    option: Option


class Axis(msgspec.Struct, frozen=True):
    """The time axis that charts share: its points as they are labelled, and what a point is."""

    labels: list[str]
    step: str
    zone: str

    @property
    def title(self) -> str:
        return f"{self.step} ({self.zone})"


def axis(at: Sequence[datetime], zone: tzinfo, name: str, *, daily: bool) -> Axis:
    shown = words.day if daily else words.moment
    return Axis([shown(one, zone) for one in at], "day" if daily else "hour", name)


def throughput(axis: Axis, now: list[Step], before: list[Step] | None, span: words.Span) -> Chart:
    series = [
        _line("enqueued", [step.totals.enqueued for step in now], "$accent", thin=True),
        _line("succeeded", [step.totals.succeeded for step in now], "$ok", area=True),
    ]
    if before is not None:
        values = [step.totals.succeeded for step in before][: len(now)]
        series.append(_line(f"succeeded, {span.before}", values, "$muted", thin=True, dashed=True))
    peak = max(now, key=lambda step: step.totals.succeeded)
    label = f"Jobs succeeded and enqueued by {axis.step}; most in one {axis.step}: {peak.totals.succeeded:,}."
    return _timed("throughput", label, axis, f"jobs per {axis.step}", series, "@count")


def failures(axis: Axis, now: list[Step]) -> Chart:
    values = [step.totals.failed for step in now]
    series = [_bar("failed", values, "$bad")]
    label = f"Jobs that failed for good by {axis.step}; most in one {axis.step}: {max(values):,}."
    return _timed("failures", label, axis, f"jobs per {axis.step}", series, "@count")


def latency(axis: Axis, now: list[Step], measure: str) -> Chart:
    found: list[tuple[float | None, ...]] = [getattr(step, measure) for step in now]
    colours = ("$p50", "$p95", "$p99")
    series = [
        _line(name, [None if one[index] is None else round(one[index] or 0.0, 1) for one in found], colours[index])
        for index, name in enumerate(PERCENTILES)
    ]
    title = {"wait": "wait", "run": "run time"}[measure]
    label = f"{title.capitalize()} by {axis.step}: half, 95 % and 99 % of attempts are below the lines, on a log scale."
    chart = _timed(measure, label, axis, title, series, "@duration")
    seen = [value for one in found for value in one if value is not None]
    ends = {"min": 10 ** math.floor(math.log10(min(seen))), "max": 10 ** math.ceil(math.log10(max(seen) + 1))}
    chart.option["yAxis"] |= {"type": "log", **ends}
    chart.option["yAxis"]["axisLabel"]["formatter"] = "@decade"
    return chart


def heat(cells: list[list[float | None]], zone: str) -> Chart:
    points = [
        [hour, day, round(value, 1)]
        for day, row in enumerate(cells)
        for hour, value in enumerate(row)
        if value is not None
    ]
    most = max((value for *_, value in points), default=0)
    option = {
        "aria": {"enabled": False},
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 28, "bottom": 64, "containLabel": True},
        "tooltip": {**_tooltip("item"), "formatter": "@cell"},
        "xAxis": {
            **_category([f"{hour:02}" for hour in range(24)], f"hour of day ({zone})"),
            "splitArea": {"show": False},
        },
        "yAxis": {**_category(list(WEEKDAYS), "weekday"), "inverse": True, **_upper(), "nameLocation": "start"},
        "visualMap": {
            "min": 0,
            "max": max(most, 1),
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "itemWidth": 10,
            "itemHeight": 140,
            "text": ["busy", "quiet"],
            "textStyle": {"color": "$muted", "fontSize": 11},
            "inRange": {"color": ["$heat0", "$heat1", "$heat2", "$heat3"]},
            "formatter": "@count",
        },
        "series": [
            {
                "type": "heatmap",
                "name": "attempts started per hour",
                "data": points,
                "itemStyle": {"borderColor": "$surface", "borderWidth": 2, "borderRadius": 3},
            }
        ],
    }
    label = f"Attempts started per hour by weekday, Monday first, and hour of day; most: {most:,.0f}."
    return Chart("heat", label, f"hour of day ({zone})", "weekday", option)


def retries(axis: Axis, now: list[Step], storms: list[Storm]) -> Chart:
    """Retries over time, with the storms shaded."""
    line = _line("retries", [step.totals.retries for step in now], "$warn", area=True)
    places = {step.at: index for index, step in enumerate(now)}
    shaded = [
        [{"xAxis": first}, {"xAxis": last}]
        for first, last in ((_place(places, storm.since), _place(places, storm.until)) for storm in storms)
    ]
    line["markArea"] = {"silent": True, "itemStyle": {"color": "$shade"}, "data": shaded}
    label = f"Retries by {axis.step}; {len(storms)} storms are shaded."
    return _timed("retries", label, axis, f"retries per {axis.step}", [line], "@count")


def _place(places: dict[datetime, int], at: datetime) -> int:
    """The last point of the axis that isn't after a time."""
    return max((index for one, index in places.items() if one <= at), default=0)


def slots(axis: Axis, busy: list[float]) -> Chart:
    values = [round(value, 2) for value in busy]
    label = f"Slots busy on average, by hour, over all workers; most: {max(values, default=0):,.1f}."
    series = [_line("busy slots", values, "$accent", area=True)]
    return _timed("slots", label, axis, "busy slots", series, "@number")


# Parts


def _timed(name: str, label: str, axis: Axis, y: str, series: list[Option], form: str) -> Chart:
    """A chart over the time axis."""
    option: Option = {
        "aria": {"enabled": False},
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 44 if len(series) > 1 else 26, "bottom": 30, "containLabel": True},
        "legend": {
            "show": len(series) > 1,
            "top": 0,
            "right": 8,
            "itemWidth": 14,
            "itemHeight": 8,
            "icon": "roundRect",
            "textStyle": {"color": "$muted", "fontSize": 12},
        },
        "tooltip": {**_tooltip("axis"), "valueFormatter": form},
        "xAxis": _category(axis.labels, axis.title, times=True),
        "yAxis": {
            "type": "value",
            "name": y,
            "minInterval": 0 if form == "@duration" else 1,
            "axisLabel": {"color": "$muted", "fontSize": 11, "formatter": form},
            "splitLine": {"lineStyle": {"color": "$line"}},
            **_upper(),
        },
        "series": series,
    }
    if form == "@number":
        del option["yAxis"]["minInterval"]
    return Chart(name, label, axis.title, y, option)


def _upper() -> Option:
    """The name of a vertical axis stands above it."""
    style = {"color": "$muted", "fontSize": 11, "align": "left"}
    return {"nameLocation": "end", "nameGap": 14, "nameTextStyle": style, "nameTruncate": {"maxWidth": 200}}


def _category(labels: list[str], name: str, *, times: bool = False) -> Option:
    shown: Option = {"color": "$muted", "fontSize": 11, "hideOverlap": True}
    if times:
        shown |= {"interval": "@ticks", "formatter": "@tick"}
    return {
        "type": "category",
        "data": labels,
        "name": name,
        "nameLocation": "middle",
        "nameGap": 26,
        "nameTextStyle": {"color": "$muted", "fontSize": 11},
        "axisLabel": shown,
        "axisTick": {"show": False},
        "axisLine": {"lineStyle": {"color": "$line"}},
    }


def _tooltip(trigger: str) -> Option:
    return {
        "trigger": trigger,
        "confine": True,
        "backgroundColor": "$raised",
        "borderColor": "$line",
        "textStyle": {"color": "$text", "fontSize": 12},
        "axisPointer": {"lineStyle": {"color": "$muted"}},
    }


def _line(
    name: str,
    values: Sequence[float | None],
    colour: str,
    *,
    area: bool = False,
    thin: bool = False,
    dashed: bool = False,
) -> Option:
    style = {"width": 1.25 if thin else 2, "color": colour, "type": "dashed" if dashed else "solid"}
    series: Option = {
        "type": "line",
        "name": name,
        "data": list(values),
        "color": colour,
        "lineStyle": style,
        "symbolSize": 5,
        "showSymbol": _isolated(values),
        "showAllSymbol": True,
        "connectNulls": False,
    }
    return {**series, "areaStyle": {"color": colour, "opacity": 0.12}} if area else series


def _isolated(values: Sequence[float | None]) -> bool:
    """Whether most points have no neighbour: a line alone would show nothing."""
    seen = [False, *(value is not None for value in values), False]
    alone = sum(here and not (left or right) for left, here, right in zip(seen, seen[1:], seen[2:], strict=False))
    return alone > sum(seen) / 2


def _bar(name: str, values: Sequence[float], colour: str) -> Option:
    style = {"color": colour, "borderRadius": [2, 2, 0, 0]}
    return {"type": "bar", "name": name, "data": list(values), "color": colour, "itemStyle": style, "barMaxWidth": 18}
