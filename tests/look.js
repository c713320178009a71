// What is wrong with a report as it is drawn: the value of this script, as JSON.
(() => {
  const wrong = [];
  const page = document.documentElement;
  const width = page.clientWidth;
  const said = (one) => `${one.tagName.toLowerCase()} ${one.id || one.getAttribute("class") || ""} "${one.textContent.slice(0, 40)}"`;
  const clipped = (one) => {
    const parent = one.parentElement;
    return parent !== null && (getComputedStyle(parent).overflowX !== "visible" || clipped(parent));
  };

  if (page.scrollWidth > width) wrong.push(`the page is ${page.scrollWidth} wide, the window ${width}`);
  for (const one of document.querySelectorAll("body *:not(script):not(svg):not(svg *)")) {
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const cut = style.overflowX !== "visible" || style.display === "inline";
    if (!cut && one.scrollWidth > one.clientWidth + 1) wrong.push(`overflows: ${said(one)}`);
    if (box.width && !clipped(one) && box.right > width + 1) wrong.push(`is outside the window: ${said(one)}`);
  }

  for (const chart of document.querySelectorAll(".chart")) {
    const outer = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll("svg text")];
    const labels = texts.map((text) => text.textContent);
    for (const name of [chart.dataset.x, chart.dataset.y]) {
      if (!labels.includes(name)) wrong.push(`${chart.id} doesn't name its axis ${name}`);
    }
    if (labels.length < 5) wrong.push(`${chart.id} has only ${labels.length} labels`);
    if (!chart.getAttribute("aria-label")) wrong.push(`${chart.id} isn't described`);
    for (const text of texts) {
      const box = text.getBoundingClientRect();
      const aside = box.left < outer.left - 1 || box.right > outer.right + 1;
      if (aside || box.top < outer.top - 1 || box.bottom > outer.bottom + 1) {
        wrong.push(`${chart.id}: "${text.textContent}" sticks out`);
      }
    }
  }
  return JSON.stringify({ wrong, hijacked: Boolean(window.hijacked) });
})();
