"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const plots = Array.from(document.querySelectorAll("script.spec"), (script) => ({
    at: document.getElementById(script.dataset.plot),
    spec: JSON.parse(script.textContent),
  }));

  function themed(layout, print) {
    const on = dark.matches && !print;
    const ink = on ? "#ececec" : "#1a1a1a", line = on ? "#3a4046" : "#d9d9d9";
    const themed = Object.assign(
      { margin: { l: 60, r: 56, t: 12, b: 48 }, height: 320 }, layout,
      { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 }, autosize: true });
    for (const axis of ["xaxis", "xaxis2", "yaxis", "yaxis2"]) {
      if (themed[axis]) themed[axis] = Object.assign({ gridcolor: line, zerolinecolor: line, automargin: true }, themed[axis]);
    }
    return themed;
  }

  function draw(print) {
    for (const { at, spec } of plots) {
      Plotly.react(at, spec.data, themed(spec.layout, print), { responsive: true, displayModeBar: false });
    }
  }
  if (plots.length) {
    draw(false);
    dark.addEventListener("change", () => draw(false));
    window.addEventListener("beforeprint", () => draw(true));
    window.addEventListener("afterprint", () => draw(false));
    window.matchMedia("print").addEventListener("change", (paper) => draw(paper.matches));
  }

  // Paper cannot be clicked: what is folded is printed unfolded, and folded again after.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = Array.from(document.querySelectorAll("details:not([open])"));
    unfolded.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => unfolded.forEach((part) => { part.open = false; }));

  function valueOf(cell) {
    const number = cell.querySelector("[data-value]");
    if (!number) return cell.textContent.trim();
    const value = JSON.parse(number.dataset.value);
    return value === null ? -Infinity : value;
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = Array.from(table.tBodies[0].rows);
        rows.sort((a, b) => {
          const left = valueOf(a.cells[column]), right = valueOf(b.cells[column]);
          const order = typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right));
          return up ? order : -order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  for (const input of document.querySelectorAll("input.filter")) {
    const rows = Array.from(document.getElementById(input.dataset.table).tBodies[0].rows);
    const status = input.closest("p").querySelector(".filtered");
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      status.textContent = wanted ? shown + " / " + rows.length : "";
    });
  }
})();
