"use strict";
// Goes from tab to tab, draws what is seen, switches series on and off, sorts the tables, and copies the command.
(() => {
  const root = document.documentElement;
  const figures = new Map(JSON.parse(document.getElementById("figures").textContent).map((figure) => [figure.id, figure]));
  const panels = [...document.querySelectorAll(".panel")];
  // Series that were switched by hand, in each table's section; whether all are shown there.
  const switched = new Map();
  const causes = new Set();
  const all = new Set();
  const split = (text) => new Set((text || "").split(" ").filter(Boolean));

  // What is off in the plots of a place: of many indexes all but the first, unless all are shown; a click decides.
  function hidden(place) {
    const at = place.closest(".at");
    const panel = place.closest(".panel");
    const off = new Set(causes);
    const scope = at || panel;
    if (!scope) return new Set([...off, ...(switched.get("page") || [])]);
    const first = split(at ? at.dataset.top : panel.dataset.leaders);
    const key = at ? at.id : panel.id;
    const every = at ? all.has(at.id) : [...panel.querySelectorAll(".at")].some((one) => all.has(one.id));
    const figure = figures.get(place.id);
    const groups = new Set(figure.series.flatMap((s) => s.of || [s.group]));
    for (const group of groups) {
      const by = (switched.get(key) || new Map()).get(group);
      if (group && group[0] === "g" && (by === undefined ? !every && !first.has(group) : !by)) off.add(group);
    }
    return off;
  }

  function draw(width) {
    for (const place of document.querySelectorAll(".plot")) {
      if (!place.offsetParent || !figures.has(place.id)) continue;
      const share = width && place.parentElement.classList.contains("three") ? width / 3 - 8 : width;
      Plot.draw(place, figures.get(place.id), hidden(place), share);
    }
  }

  // Rows and chips as the plots beside them.
  function mark(at) {
    const first = split(at.dataset.top);
    const by = switched.get(at.id) || new Map();
    const every = all.has(at.id);
    for (const row of at.querySelectorAll("tr.row")) {
      const series = row.dataset.series;
      row.classList.toggle("more", !every && !first.has(series));
      row.classList.toggle("off", by.get(series) === false);
    }
    for (const chip of at.querySelectorAll(".chip[data-series^=g]")) {
      const on = by.get(chip.dataset.series) ?? (every || first.has(chip.dataset.series));
      chip.setAttribute("aria-pressed", String(on));
      chip.classList.toggle("more", !every && !first.has(chip.dataset.series) && !on);
    }
    const button = at.querySelector("button.all");
    const many = at.querySelectorAll("tr.row").length > first.size;
    button.hidden = !many;
    button.setAttribute("aria-pressed", String(every));
    button.textContent = every ? "show the first five" : `show all ${at.querySelectorAll("tr.row").length}`;
  }

  function choose(panel) {
    for (const other of panels) other.hidden = other !== panel;
    for (const tab of document.querySelectorAll(".tab")) tab.setAttribute("aria-selected", String(tab.getAttribute("aria-controls") === panel.id));
  }

  function chooseRam(panel, id) {
    for (const at of panel.querySelectorAll(".at")) at.hidden = at.id !== "at-" + id;
    for (const button of panel.querySelectorAll(".ram")) button.setAttribute("aria-pressed", String(button.dataset.at === id));
  }

  for (const panel of panels) {
    const pressed = panel.querySelector('.ram[aria-pressed="true"]');
    if (pressed) chooseRam(panel, pressed.dataset.at);
    for (const button of panel.querySelectorAll(".ram")) button.addEventListener("click", () => { chooseRam(panel, button.dataset.at); draw(); });
    for (const at of panel.querySelectorAll(".at")) {
      const button = at.querySelector("button.all");
      if (!button) continue;
      button.addEventListener("click", () => {
        if (all.has(at.id)) all.delete(at.id); else all.add(at.id);
        switched.delete(at.id);
        mark(at);
        draw();
      });
      mark(at);
    }
  }
  if (panels.length) choose(panels[0]);
  document.querySelectorAll(".tab").forEach((tab, number, tabs) => {
    tab.addEventListener("click", () => { choose(document.getElementById(tab.getAttribute("aria-controls"))); draw(); });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) tabs[(number + step + tabs.length) % tabs.length].focus();
    });
  });

  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const series = chip.dataset.series;
      const on = chip.getAttribute("aria-pressed") !== "true";
      const at = chip.closest(".at");
      if (series[0] === "c") {
        if (on) causes.delete(series); else causes.add(series);
        for (const same of document.querySelectorAll(`.chip[data-series="${series}"]`)) same.setAttribute("aria-pressed", String(on));
      } else if (at) {
        if (!switched.has(at.id)) switched.set(at.id, new Map());
        switched.get(at.id).set(series, on);
        mark(at);
      } else {
        const off = switched.get("page") || new Set();
        if (on) off.delete(series); else off.add(series);
        switched.set("page", off);
        chip.setAttribute("aria-pressed", String(on));
        for (const row of document.querySelectorAll(`tr[data-series="${series}"]`)) row.classList.toggle("off", !on);
      }
      draw();
    });
  }

  // Sorts the rows of a table; a second time turns the order around.
  function sort(head, column) {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const text = row.children[column].dataset.value;
      return text === "" ? Infinity : Number(text);
    };
    const order = (a, b) => column === 0 ? a.children[0].textContent.localeCompare(b.children[0].textContent) : value(a) - value(b);
    for (const body of head.closest("table").tBodies) {
      const rows = [...body.querySelectorAll(".row")].sort(order);
      if (down) rows.reverse();
      const title = body.querySelector(".class");
      if (title) title.after(...rows); else body.prepend(...rows);
    }
  }

  for (const table of document.querySelectorAll(".comparison")) {
    const heads = [...table.querySelectorAll("thead tr:last-child th")];
    heads.forEach((head, column) => {
      const label = head.querySelector(".sort");
      if (!label) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = label.textContent;
      label.replaceWith(button);
      button.addEventListener("click", () => sort(head, column));
    });
    // On a phone each row is a card, whose figures need their names.
    const names = heads.map((head) => [head.querySelector(".sort")?.textContent, head.querySelector(".unit")?.textContent].filter(Boolean).join(", "));
    for (const row of table.querySelectorAll(".row")) [...row.children].forEach((cell, i) => { if (i) cell.dataset.name = names[i]; });
  }

  function offer(id, action) {
    const button = document.getElementById(id);
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => action(button));
  }

  offer("theme", () => {
    root.dataset.theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
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
  let waiting;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 120); });
  draw();
})();
