"use strict";
// Gives the plots the page's theme, switches series on and off, sorts the comparison, and copies the command.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const hidden = new Set();
  const TOKEN = /^([sc]\d+|ink|muted|faint)$/;
  let palette;

  const colour = (token) => palette.getPropertyValue("--" + token).trim();

  // Replaces colour tokens by the theme's colours, everywhere in a figure.
  function themed(value) {
    if (typeof value === "string") return TOKEN.test(value) ? colour(value) : value.replace(/color:(s\d+)/, (_, token) => "color:" + colour(token));
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === "ids" ? v : themed(v)]));
  }

  // The traces that are switched on; in a stack by cause, without the bars of indexes that are off.
  function shown(trace) {
    if (hidden.has(trace.legendgroup)) return [];
    if (!trace.ids || !trace.ids.some((id) => hidden.has(id))) return [trace];
    const keep = (list) => list.filter((_, i) => !hidden.has(trace.ids[i]));
    return [{ ...trace, x: keep(trace.x), y: keep(trace.y), hovertext: keep(trace.hovertext) }];
  }

  function axis(own) {
    const style = { gridcolor: colour("line"), zerolinecolor: colour("faint"), linecolor: colour("faint"), tickcolor: colour("faint") };
    return { ...style, ...own, title: { ...own?.title, standoff: 10, font: { size: 13, color: colour("muted") } } };
  }

  function layout(figure, width) {
    const own = themed(figure.layout);
    const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") };
    const label = { bgcolor: colour("card"), bordercolor: colour("faint"), font: { ...font, size: 13 } };
    return {
      ...own, font, width, paper_bgcolor: "transparent", plot_bgcolor: "transparent", hoverlabel: { ...label, align: "left" },
      xaxis: axis(own.xaxis), yaxis: axis(own.yaxis), modebar: { color: colour("faint"), activecolor: colour("ink"), bgcolor: "transparent" },
    };
  }

  function draw(width) {
    palette = getComputedStyle(root);
    for (const figure of figures) {
      const place = document.getElementById(figure.id);
      if (!place) continue;
      const config = {
        responsive: true, displayModeBar: innerWidth < 760 ? false : "hover", displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
        toImageButtonOptions: { format: "svg", filename: "nandex-" + figure.id },
      };
      const share = width && place.parentElement.classList.contains("three") ? width / 3 - 8 : width;
      Plotly.react(place, figure.data.flatMap(shown).map((t) => ({ ...themed(t), legendgroup: undefined, ids: undefined })), layout(figure, share), config);
    }
  }

  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const series = chip.dataset.series;
      const off = !hidden.has(series);
      if (off) hidden.add(series); else hidden.delete(series);
      chip.setAttribute("aria-pressed", String(!off));
      for (const row of document.querySelectorAll(`tr[data-series="${series}"]`)) row.classList.toggle("off", off);
      draw();
    });
  }

  // Sorts the rows of each durability class; a second time turns the order around.
  function sort(head, column) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const text = row.children[column].dataset.value;
      return text === "" ? Infinity : Number(text);
    };
    const order = (a, b) => column === 0 ? a.children[0].textContent.localeCompare(b.children[0].textContent) : value(a) - value(b);
    for (const body of document.querySelectorAll(".comparison tbody")) {
      const rows = [...body.querySelectorAll(".row")].sort(order);
      if (down) rows.reverse();
      body.querySelector(".class").after(...rows);
    }
  }

  document.querySelectorAll(".comparison thead tr:last-child th").forEach((head, column) => {
    const label = head.querySelector(".sort");
    if (!label) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = label.textContent;
    label.replaceWith(button);
    button.addEventListener("click", () => sort(head, column));
  });

  function offer(id, action) {
    const button = document.getElementById(id);
    button.hidden = false;
    button.addEventListener("click", () => action(button));
  }

  offer("theme", () => {
    root.dataset.theme = palette.colorScheme === "dark" ? "light" : "dark";
    draw();
  });
  offer("save", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById("results").textContent], { type: "application/json" }));
    link.download = "nandex-results.json";
    link.click();
  });
  if (navigator.clipboard) {
    offer("copy", async (button) => {
      await navigator.clipboard.writeText(document.getElementById("command").textContent);
      button.textContent = "Copied";
    });
  }

  // Paper is white and narrower than the window.
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    draw(680);
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  draw();
})();
