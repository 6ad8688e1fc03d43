// Runs in the page: presses every control and looks at what comes of it. The verdict is an attribute of the root.
(() => {
  const wrong = [];
  const seen = { controls: 0, drawings: 0 };
  window.addEventListener("error", (event) => wrong.push(event.message));
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const shown = (node) => node.offsetParent !== null;
  const expect = (truth, what) => { if (!truth) wrong.push(what); };
  const press = (button) => { seen.controls += 1; button.click(); };
  function drawn(what) {
    for (const place of all(".plot").filter(shown)) {
      const svg = place.querySelector("svg.figure:last-of-type");
      expect(svg && svg.querySelectorAll("path, rect").length > 0, `${what}: ${place.id} is empty`);
      expect(svg && !/NaN|undefined/.test(svg.outerHTML), `${what}: ${place.id} has no numbers`);
      seen.drawings += 1;
    }
  }
  try {
    drawn("at first");
    expect(document.documentElement.scrollWidth <= innerWidth + 1, `the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
    const theme = document.getElementById("theme");
    const before = getComputedStyle(document.body).backgroundColor;
    press(theme);
    expect(getComputedStyle(document.body).backgroundColor !== before, "the theme stays");
    press(theme);
    const tabs = all(".tab");
    for (const tab of tabs.length ? tabs : [null]) {
      if (tab) press(tab);
      const panel = tab ? document.getElementById(tab.getAttribute("aria-controls")) : document.querySelector(".panel") || document.body;
      if (tab) expect(shown(panel) && all(".panel").filter(shown).length === 1 && tab.getAttribute("aria-selected") === "true", `tab ${tab.textContent}`);
      const rams = all(".ram", panel);
      for (const ram of rams.length ? rams : [null]) {
        if (ram) press(ram);
        const at = ram ? document.getElementById("at-" + ram.dataset.at) : all(".at", panel).find(shown) || panel;
        if (ram) expect(shown(at) && all(".at", panel).filter(shown).length === 1, `RAM ${ram.textContent}`);
        drawn("with " + (ram ? ram.textContent : "one RAM"));
        const rows = () => all("tr.row", at).filter((row) => getComputedStyle(row).display !== "none").length;
        const button = at.querySelector("button.all");
        if (button && !button.hidden) {
          const few = rows();
          press(button);
          expect(rows() > few, "show all shows no more");
          drawn("with all");
          press(button);
          expect(rows() === few, "show the first five shows others");
        }
        for (const chip of all(".chip", at).filter(shown)) {
          const was = chip.getAttribute("aria-pressed");
          press(chip);
          expect(chip.getAttribute("aria-pressed") !== was, `chip ${chip.textContent} stays`);
          press(chip);
        }
        for (const head of all("button.sort", at).filter(shown)) {
          press(head);
          const column = [...head.closest("tr").children].indexOf(head.closest("th"));
          const values = all("tr.row", at).map((row) => row.children[column].dataset.value).filter((v) => v).map(Number);
          expect(values.every((v, i) => i === 0 || values[i - 1] <= v), `sorting by ${head.textContent}`);
        }
        for (const place of all(".plot", at).filter(shown)) {
          const svg = place.querySelector("svg.figure:last-of-type");
          const box = svg.getBoundingClientRect();
          const mark = all("path.fill, rect.fill, path.open", svg).pop().getBoundingClientRect();
          svg.dispatchEvent(new PointerEvent("pointermove", { clientX: mark.x + mark.width / 2, clientY: mark.y + mark.height / 2, bubbles: true }));
          const tip = place.querySelector(".tip");
          expect(!tip.hidden && tip.textContent.length > 2, `no tip in ${place.id} (${box.width})`);
        }
      }
    }
    for (const summary of all("summary")) { press(summary); }
    for (const id of ["save", "copy"]) { const button = document.getElementById(id); if (button && !button.hidden) press(button); }
  } catch (error) {
    wrong.push(String(error.stack || error));
  }
  document.documentElement.dataset.selftest = wrong.length ? "wrong: " + wrong.slice(0, 12).join(" | ") : `well, ${seen.controls} controls, ${seen.drawings} drawings`;
})();
