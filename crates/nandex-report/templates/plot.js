"use strict";
// Draws figures (src/html/draw.rs) as SVG: lines, steps, bars and points on linear, logarithmic and named axes, with
// tips. Text goes in as text nodes only.
const Plot = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 3", "8 3 2 3", "12 4", "12 3 2 3"];
  const UNIT = [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"], [1, "B"]];

  function el(name, attributes, parent, text) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== "") node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  // A shape around a point, by the number of the mark.
  function shape(mark, x, y, r) {
    const star = () => Array.from({ length: 10 }, (_, i) => {
      const [radius, angle] = [i % 2 ? r * 0.5 : r * 1.25, Math.PI * (i / 5 - 0.5)];
      return `${x + radius * Math.cos(angle)} ${y + radius * Math.sin(angle)}`;
    }).join("L");
    const t = r * 0.4;
    const plus = [[-t, -r], [t, -r], [t, -t], [r, -t], [r, t], [t, t], [t, r], [-t, r], [-t, t], [-r, t], [-r, -t], [-t, -t]];
    const turned = plus.map(([a, b]) => [(a - b) * 0.75, (a + b) * 0.75]);
    const poly = (points) => "M" + points.map(([a, b]) => `${x + a} ${y + b}`).join("L") + "Z";
    switch (mark % 8) {
      case 0: return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
      case 1: return poly([[-r, -r], [r, -r], [r, r], [-r, r]].map((p) => p.map((v) => v * 0.88)));
      case 2: return poly([[0, -r * 1.2], [r * 1.2, 0], [0, r * 1.2], [-r * 1.2, 0]]);
      case 3: return poly([[0, -r * 1.1], [r * 1.1, r * 0.9], [-r * 1.1, r * 0.9]]);
      case 4: return poly([[0, r * 1.1], [r * 1.1, -r * 0.9], [-r * 1.1, -r * 0.9]]);
      case 5: return "M" + star() + "Z";
      case 6: return poly(plus);
      default: return poly(turned);
    }
  }

  function number(value) {
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(1);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(4)));
  }

  function bytes(value) {
    const [unit, name] = UNIT.find(([size]) => value >= size) || UNIT[3];
    return `${Number((value / unit).toPrecision(4))} ${name}`;
  }

  const written = (axis, value) => axis.names ? axis.names[value] : axis.bytes ? bytes(value) : number(value);

  // From values to 0..1, with ticks.
  function scale(axis, values, room, zero) {
    if (axis.names) {
      const n = Math.max(axis.names.length, 1);
      return { at: (v) => (v + 0.5) / n, ticks: axis.names.map((_, i) => i), band: 1 / n };
    }
    let known = values.filter((v) => v !== null && Number.isFinite(v));
    if (axis.log) {
      known = known.filter((v) => v > 0);
      if (!known.length) known = [1];
      let [low, high] = [Math.min(...known), Math.max(...known)];
      if (low === high) { low /= 2; high *= 2; }
      const pad = (high / low) ** 0.04;
      [low, high] = [low / (zero ? Math.max(pad, 1.5) : pad), high * pad];
      const at = (v) => (Math.log(Math.max(v, low)) - Math.log(low)) / (Math.log(high) - Math.log(low));
      const ticks = [];
      const base = axis.bytes ? 2 : 10;
      for (let e = Math.floor(Math.log(low) / Math.log(base)) - 1; e <= Math.ceil(Math.log(high) / Math.log(base)); e++) {
        for (const m of base === 2 ? [1] : high / low < 50 ? [1, 2, 5] : [1]) ticks.push(m * base ** e);
      }
      const inside = ticks.filter((t) => t >= low && t <= high);
      const every = Math.ceil(inside.length / Math.max(room, 2));
      return { at, ticks: inside.filter((_, i) => i % every === 0) };
    }
    if (!known.length) known = [0, 1];
    let [low, high] = [Math.min(...known), Math.max(...known)];
    if (zero) low = Math.min(low, 0);
    if (low === high) high = low + (Math.abs(low) || 1);
    const raw = (high - low) / Math.max(room, 2);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const top = zero ? Math.ceil(high / step - 1e-9) * step : high;
    const ticks = [];
    for (let t = Math.ceil(low / step - 1e-9) * step; t <= top + step * 1e-6; t += step) ticks.push(Number(t.toPrecision(12)));
    return { at: (v) => (v - low) / (top - low), ticks };
  }

  // Bars that are switched off leave no gap.
  function visible(figure, hidden) {
    const on = figure.series.filter((s) => !s.group || !hidden.has(s.group));
    if (!figure.sideways) return { figure, series: on };
    const kept = figure.y.names.map((_, i) => i).filter((i) => !hidden.has(on[0]?.of?.[i]));
    const pick = (list) => list && kept.map((i) => list[i]);
    const y = { ...figure.y, names: pick(figure.y.names), marks: pick(figure.y.marks) };
    return { figure: { ...figure, y }, series: on.map((s) => ({ ...s, x: pick(s.x), words: pick(s.words), of: pick(s.of), y: kept.map((_, i) => i) })) };
  }

  function draw(place, whole, hidden, width) {
    place.replaceChildren();
    const { figure, series } = visible(whole, hidden);
    width = Math.max(width || place.clientWidth, 260);
    const rows = figure.sideways ? figure.y.names.length : 0;
    const longest = (axis, ticks) => Math.max(3, ...ticks.map((t) => String(written(axis, t)).length + (axis.marks ? 2 : 0)));
    const lowNames = figure.x.names && !figure.sideways && figure.x.names.join("").length * 7.5 > width - 80;
    const height = figure.sideways ? 74 + 24 * Math.max(rows, 1) : (width < 560 ? 300 : 380) + (lowNames ? 60 : 0);
    const xs = series.flatMap((s) => s.x).concat((figure.lines || []).map((l) => l[0]));
    const reach = (s) => s.y.flatMap((v, i) => s.spread ? [v - s.spread.below[i], v + s.spread.above[i]] : [v]);
    let ys = series.flatMap(reach);
    let xValues = xs;
    if (figure.stacked) {
      const sums = new Map();
      for (const s of series) (figure.sideways ? s.y : s.x).forEach((at, i) => sums.set(at, (sums.get(at) || 0) + (figure.sideways ? s.x : s.y)[i]));
      if (figure.sideways) xValues = [0, ...sums.values()]; else ys = [0, ...sums.values()];
    }
    const y = scale(figure.y, ys, height / 60, true);
    const left = Math.min(18 + 7.2 * longest(figure.y, y.ticks) + (figure.y.title ? 16 : 0), width * 0.45);
    const box = { left, right: width - 14, top: 16, bottom: height - (lowNames ? 104 : 46) };
    const x = scale(figure.x, xValues, (box.right - box.left) / (figure.x.bytes ? 64 : 84), figure.sideways);
    const px = (v) => box.left + x.at(v) * (box.right - box.left);
    const py = (v) => box.bottom - (figure.sideways ? 1 - y.at(v) : y.at(v)) * (box.bottom - box.top);
    const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "figure" }, null);
    el("title", {}, svg, `${figure.y.title || figure.x.title}: ${series.length} series`);
    axes(svg, figure, { x, y, px, py, box, lowNames, height });
    for (const [at, name] of figure.lines || []) {
      el("line", { x1: px(at), x2: px(at), y1: box.top, y2: box.bottom, class: "apart" }, svg);
      el("text", { x: px(at) + 4, y: box.top - 4, class: "tick" }, svg, name);
    }
    const spots = [];
    const bars = series.filter((s) => s.kind === "bar");
    if (bars.length) drawBars(svg, figure, bars, { x, y, px, py, box, spots });
    series.filter((s) => s.kind !== "bar").forEach((s) => drawLine(svg, s, { figure, px, py, spots }));
    if (figure.legend) place.append(legend(series.filter((s) => !s.behind)));
    place.append(svg);
    tips(place, svg, spots, width);
  }

  function axes(svg, figure, { x, y, px, py, box, lowNames, height }) {
    for (const t of y.ticks) {
      const at = py(t);
      if (!figure.y.names) el("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "grid" }, svg);
      const mark = figure.y.marks?.[t];
      if (mark) el("path", { d: shape(mark[0], box.left - 12, at, 4.5), class: "fill " + mark[1] }, svg);
      el("text", { x: box.left - (mark ? 22 : 8), y: at + 4, class: "tick end" }, svg, written(figure.y, t));
    }
    for (const t of x.ticks) {
      const at = px(t);
      if (!figure.x.names) el("line", { x1: at, x2: at, y1: box.top, y2: box.bottom, class: "grid" }, svg);
      const turn = lowNames ? `rotate(-32 ${at} ${box.bottom + 16})` : undefined;
      el("text", { x: at, y: box.bottom + 17, class: lowNames ? "tick end" : "tick middle", transform: turn }, svg, written(figure.x, t));
    }
    el("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "base" }, svg);
    if (figure.x.title) el("text", { x: (box.left + box.right) / 2, y: height - 6, class: "title middle" }, svg, figure.x.title + (figure.x.log && !figure.x.bytes ? ", log" : ""));
    if (figure.y.title) {
      const middle = (box.top + box.bottom) / 2;
      el("text", { x: 12, y: middle, class: "title middle", transform: `rotate(-90 12 ${middle})` }, svg, figure.y.title + (figure.y.log ? ", log" : ""));
    }
  }

  function drawBars(svg, figure, bars, { x, y, px, py, box, spots }) {
    const sums = new Map();
    const band = figure.sideways ? y.band * (box.bottom - box.top) : (x.band || 1 / Math.max(1, new Set(bars.flatMap((s) => s.x)).size)) * (box.right - box.left);
    const full = band * (figure.sideways ? 0.72 : 0.8);
    const thick = figure.stacked ? full : full / bars.length;
    bars.forEach((s, nth) => s.x.forEach((_, i) => {
      const [place, value] = figure.sideways ? [s.y[i], s.x[i]] : [s.x[i], s.y[i]];
      if (value === null || value === undefined) return;
      const start = figure.stacked ? sums.get(place) || 0 : 0;
      sums.set(place, start + value);
      const shift = figure.stacked ? -full / 2 : -full / 2 + nth * thick;
      const size = Math.max(thick - (figure.stacked ? 0 : 1), 1);
      const at = figure.sideways
        ? { x: px(start), y: py(place) + shift, width: Math.max(px(start + value) - px(start), value > 0 ? 0.7 : 0), height: size }
        : { x: px(place) + shift, width: size, y: py(start + value), height: Math.max((figure.y.log ? box.bottom : py(start)) - py(start + value), value > 0 ? 0.7 : 0) };
      el("rect", { ...at, class: "fill " + s.colour + (s.hatched ? " hatched" : "") }, svg);
      const [mx, my] = [at.x + at.width / 2, at.y];
      if (!figure.stacked && size > 7) el("path", { d: shape(s.mark, mx, my - 8, Math.min(4.5, size / 2.4)), class: "fill " + s.colour }, svg);
      if (s.spread) whisker(svg, mx, py(value - s.spread.below[i]), py(value + s.spread.above[i]));
      spots.push({ x: mx, y: figure.sideways ? at.y + size / 2 : my, area: at, words: s.words?.[i] || `${s.name}: ${number(value)}` });
    }));
  }

  function whisker(svg, x, low, high) {
    el("path", { d: `M${x} ${low}V${high}M${x - 3} ${low}h6M${x - 3} ${high}h6`, class: "whisker" }, svg);
  }

  function drawLine(svg, s, { figure, px, py, spots }) {
    const points = s.x.map((v, i) => [v, s.y[i], i]).filter(([v, w]) => v !== null && w !== null && !(figure.x.log && v <= 0) && !(figure.y.log && w <= 0));
    const at = points.map(([v, w]) => [px(v), py(w)]);
    if (s.kind !== "points" && at.length) {
      const d = at.map(([a, b], i) => i === 0 ? `M${a} ${b}` : s.kind === "step" ? `H${a}V${b}` : `L${a} ${b}`).join("");
      el("path", { d, class: "line " + s.colour + (s.behind ? " behind" : ""), "stroke-dasharray": DASHES[(s.mark + (s.open ? 1 : 0)) % DASHES.length] }, svg);
    }
    const every = Math.max(1, Math.ceil(at.length / 9));
    at.forEach(([a, b], k) => {
      const i = points[k][2];
      if (s.spread) whisker(svg, a, py(s.y[i] - s.spread.below[i]), py(s.y[i] + s.spread.above[i]));
      if (!s.behind && (s.kind === "points" || k % every === 0 || k === at.length - 1)) {
        el("path", { d: shape(s.mark, a, b, s.open ? 6 : 4.5), class: (s.open ? "open " : "fill ") + s.colour }, svg);
      }
      if (!s.behind) spots.push({ x: a, y: b, words: s.words?.[i] || `${s.name}: ${number(s.y[i])} at ${written(figure.x, s.x[i])}` });
    });
  }

  function legend(series) {
    const list = document.createElement("p");
    list.className = "names";
    for (const s of series) {
      const one = document.createElement("span");
      const picture = el("svg", { width: 16, height: 12, class: "figure" }, null);
      el("path", { d: shape(s.mark, 8, 6, s.open ? 5 : 4.5), class: (s.open ? "open " : "fill ") + s.colour }, picture);
      one.append(picture, s.name);
      list.append(one);
    }
    return list;
  }

  // The words of the nearest point, below the pointer or a finger.
  function tips(place, svg, spots, width) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    place.append(tip);
    const show = (event) => {
      const frame = svg.getBoundingClientRect();
      const [mx, my] = [event.clientX - frame.left, event.clientY - frame.top];
      const far = (s) => s.area && mx >= s.area.x && mx <= s.area.x + s.area.width && my >= s.area.y && my <= s.area.y + s.area.height ? -1 : Math.hypot(s.x - mx, s.y - my);
      let best = null, least = 40;
      for (const s of spots) { const d = far(s); if (d < least) { least = d; best = s; } }
      tip.hidden = best === null;
      if (best === null) return;
      tip.textContent = best.words;
      const base = svg.offsetTop ?? 0;
      const top = frame.top - place.getBoundingClientRect().top;
      tip.style.left = Math.min(Math.max(best.x - 20, 0), Math.max(width - tip.offsetWidth - 4, 0)) + "px";
      tip.style.top = top + base * 0 + best.y + 14 + "px";
    };
    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerdown", show);
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  return { draw, shape, number, bytes };
})();
