// Draws the charts of the report in the colours of the page, and again when the scheme or the width changes.
(() => {
  "use strict";
  const COLOURS = new Set(["color", "borderColor", "backgroundColor"]);
  const FORMATS = new Set(["formatter", "valueFormatter", "interval"]);
  const options = JSON.parse(document.getElementById("charts").textContent);
  const root = getComputedStyle(document.documentElement);
  const drawn = [];

  const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));

  const count = (value) => {
    if (value == null) return "–";
    if (value >= 1e6) return trimmed(value / 1e6, 3) + " M";
    return value >= 1e4 ? trimmed(value / 1e3, 3) + " k" : trimmed(value, 4);
  };

  const duration = (ms) => {
    if (ms == null) return "–";
    const units = [[1e3, 1, "ms"], [6e4, 1e3, "s"], [3.6e6, 6e4, "min"], [8.64e7, 3.6e6, "h"], [Infinity, 8.64e7, "d"]];
    const [, size, unit] = units.find(([limit]) => ms < limit);
    return trimmed(ms / size, 3) + " " + unit;
  };

  // The powers of ten of a logarithmic axis: 100 s reads better there than 1.67 min.
  const decade = (ms) => (ms < 1e3 ? ms + " ms" : ms <= 1e7 ? ms / 1e3 + " s" : duration(ms));

  const formats = {
    count,
    duration,
    decade,
    number: (value) => (value == null ? "–" : trimmed(value, 3)),
    cell: (one) => `${["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][one.value[1]]} ${String(one.value[0]).padStart(2, "0")}:00 · ${count(one.value[2])} an hour`,
  };

  // A label stands at each midnight; where the axis has too few of them, wherever there is room.
  const ticks = (labels) => {
    const midnights = labels.filter((label) => label.endsWith(" 00:00")).length;
    const daily = !labels.some((label) => label.includes(":"));
    if (daily) return { interval: "auto", tick: (label) => label.split(" ").slice(1, 3).join(" ") };
    if (midnights < 2) return { interval: "auto", tick: (label) => label.split(" ").pop() };
    return {
      interval: (_, label) => label.endsWith(" 00:00"),
      tick: (label) => label.split(" ").slice(0, 2).join(" "),
    };
  };

  const revived = (value, key, own) => {
    if (Array.isArray(value)) return value.map((one) => revived(one, key, own));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, revived(one, name, own)]));
    }
    if (typeof value !== "string") return value;
    if (COLOURS.has(key) && value[0] === "$") return root.getPropertyValue("--" + value.slice(1)).trim();
    if (FORMATS.has(key) && value[0] === "@") return own[value.slice(1)];
    return value;
  };

  const draw = () => {
    drawn.splice(0).forEach((chart) => chart.dispose());
    for (const [name, option] of Object.entries(options)) {
      const { interval, tick } = ticks(option.xAxis.data);
      const chart = echarts.init(document.getElementById("chart-" + name), null, { renderer: "svg" });
      const font = { textStyle: { fontFamily: root.getPropertyValue("--sans") } };
      chart.setOption({ ...font, ...revived(option, "", { ...formats, ticks: interval, tick }) });
      drawn.push(chart);
    }
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => drawn.forEach((chart) => chart.resize())).observe(document.querySelector("main"));
  addEventListener("beforeprint", () => { document.documentElement.dataset.paper = ""; draw(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.paper; draw(); });
})();
