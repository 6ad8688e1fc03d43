'use strict';
const $ = id => document.getElementById(id);
const el = (tag, cls, text) => { const e = document.createElement(tag); if (cls) e.className = cls; if (text !== undefined) e.textContent = text; return e; };
let about = null, run = null, at = { step: 0, event: 0 }, state = null, playing = null, stopAt = -1, cursor = -1, asked = 0, before = [];

async function call(path, body) {
  const answer = await fetch('api/' + path, body === undefined ? {} : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const kind = answer.headers.get('Content-Type') || '';
  const said = kind.startsWith('application/json') ? await answer.json() : { error: (await answer.text()).trim() };
  if (!answer.ok) throw new Error(said.error || 'the server refused');
  return said;
}
function fail(error) { $('error').hidden = !error; $('error').textContent = error ? String(error.message || error) : ''; }
const attempt = work => async (...given) => { try { fail(null); await work(...given); } catch (error) { pause(); fail(error); } };

// ---- what can be chosen

function fill(id, items) { $(id).replaceChildren(...items.map(([value, text]) => { const o = el('option', '', text || value); o.value = value; return o; })); }
function chosen() { return about.indexes.find(i => i.name === $('f-index').value); }
function choices() {
  const index = chosen();
  $('l-ftl').hidden = !index.on_ftl;
  const chip = about.chips.find(c => c.name === $('f-chip').value);
  const most = Math.max(8, Math.floor(about.pages_max / chip.pages));
  $('f-blocks').max = Math.min(512, most);
  if (Number($('f-blocks').value) > Number($('f-blocks').max)) $('f-blocks').value = $('f-blocks').max;
  $('about-index').textContent = index.summary + '. Chip: pages of ' + chip.page + '+' + chip.spare + ' bytes, ' + chip.pages + ' to a block.' +
    (index.ascending ? ' Takes ascending keys only, whatever the workload.' : '');
}
function setup() {
  const index = chosen(), options = [];
  for (const pair of $('f-options').value.split(',').map(p => p.trim()).filter(p => p)) {
    const cut = pair.indexOf('=');
    if (cut < 1) throw new Error('options are name=value, separated by commas');
    options.push([pair.slice(0, cut).trim(), pair.slice(cut + 1).trim()]);
  }
  const number = id => { const n = Number($(id).value); if (!Number.isInteger(n) || n < 0) throw new Error('a whole number is wanted'); return n; };
  const asked = { index: index.name, chip: $('f-chip').value, blocks: number('f-blocks'), workload: $('f-workload').value, operations: number('f-operations'),
    durability: $('f-durability').value, sync_every: number('f-sync'), seed: number('f-seed'), options };
  if (index.on_ftl) asked.ftl = $('f-ftl').value;
  if ($('f-ram').value) asked.ram = number('f-ram');
  return asked;
}

// ---- runs

async function take(made, place) {
  run = made; state = null; stopAt = -1;
  const s = run.setup;
  $('run-name').textContent = s.index + (s.ftl || chosenOn(s.index) ? ' on ' + (s.ftl || 'page-map') : '') + ', chip ' + run.chip.name + ' (' + run.chip.blocks + ' blocks of ' + run.chip.pages +
    ' pages of ' + run.chip.page + ' bytes), workload ' + s.workload + ', durable after: ' + run.durability;
  $('slider').max = run.steps.length - 1;
  showRecovery();
  $('cut-box').hidden = true;
  await go(place || { step: 0, event: run.steps[0].events });
}
const chosenOn = name => (about.indexes.find(i => i.name === name) || {}).on_ftl;
const whole = step => ({ step, event: run.steps[step].events });

async function go(place) {
  at = place;
  const mine = ++asked, id = run.id;
  $('slider').value = at.step;
  const seen = await call('at?id=' + id + '&step=' + at.step + '&event=' + at.event);
  if (mine !== asked || run.id !== id) return;
  state = seen;
  render();
}
async function step(by) {
  const here = whole(at.step);
  if (by < 0 && at.event < here.event && at.event > 0) return go(at.step > 0 ? whole(at.step - 1) : whole(0));
  if (by > 0 && at.event < here.event) return go(here);
  const to = Math.min(run.steps.length - 1, Math.max(0, at.step + by));
  if (to !== at.step || at.event !== here.event) await go(whole(to));
}
async function fine(by) {
  const to = at.event + by;
  if (to > run.steps[at.step].events) { if (at.step + 1 < run.steps.length) await go({ step: at.step + 1, event: Math.min(1, run.steps[at.step + 1].events) }); }
  else if (to < 0) { if (at.step > 0) await go({ step: at.step - 1, event: Math.max(0, run.steps[at.step - 1].events - 1) }); }
  else await go({ step: at.step, event: to });
}
function pause() { if (playing) { clearTimeout(playing); playing = null; } $('b-play').textContent = '\u25B6\uFE0E Play'; $('b-play').setAttribute('aria-label', 'Play'); }
async function tick() {
  if (!run || at.step + 1 >= run.steps.length) {
    if (run && !run.recovery && run.steps.length < 2000 && !run.steps[run.steps.length - 1].failed && !run.stops.length) await more(); else return pause();
  }
  await step(1);
  if (playing) playing = setTimeout(attempt(tick), Number($('speed').value));
}
async function more() {
  const longer = await call('more', { id: run.id, operations: 50 });
  run = longer; $('slider').max = run.steps.length - 1;
}
function play() {
  if (playing) return pause();
  $('b-play').textContent = '\u23F8\uFE0E Pause'; $('b-play').setAttribute('aria-label', 'Pause');
  playing = setTimeout(attempt(tick), 0);
}

// ---- the cut

function offerCut() {
  pause();
  $('cut-box').hidden = !$('cut-box').hidden;
  if ($('cut-box').hidden) return;
  $('cut-next').textContent = state.next_change;
  $('cut-modes').replaceChildren(...about.cuts.map(cut => {
    const b = el('button', 'danger', cut.words); b.type = 'button'; b.dataset.mode = cut.name;
    b.onclick = attempt(async () => {
      before.push({ run, at });
      const made = await call('cut', { id: run.id, at, mode: cut.name });
      await take(made, { step: made.recovery.step, event: made.steps[Math.min(made.recovery.step, made.steps.length - 1)].events });
      $('recovery').scrollIntoView({ block: 'nearest' });
    });
    return b;
  }));
  $('cut-modes').firstChild.focus();
}
function showRecovery() {
  const box = $('recovery'), r = run.recovery;
  box.hidden = !r;
  if (!r) return;
  box.className = 'card ' + (r.kept === true ? 'kept' : r.kept === false ? 'broken' : '');
  const list = el('dl');
  const row = (name, text) => { if (text) list.append(el('dt', '', name), el('dd', '', text)); };
  const causes = counts => Object.entries(counts).map(([cause, n]) => n + ' ' + cause.replace(/_/g, ' ')).join(', ') || 'none';
  row('the cut met', r.met + ', ' + about.cuts.find(c => c.name === r.mode).words);
  row('promise', r.promise === 'none' ? 'nothing' : r.promise + ' survives');
  row('the mount read', causes(r.reads)); row('programmed', causes(r.programs)); row('erased', String(r.erases)); row('took', time(r.flash_ns) + ' of flash time');
  row('refused', r.refused || '');
  row('records', r.records[0] + ' acknowledged, ' + (r.refused && !r.sound ? 'none opened' : r.records[1] + ' came back'));
  const say = d => d.key + ': ' + (d.was === null ? 'removed or new' : run.spatial ? 'there' : d.was) + ' \u2192 ' + (d.is === null ? 'not there' : run.spatial ? 'there' : d.is);
  row('differs', r.differing ? r.differences.slice(0, 12).map(say).join('; ') + (r.differing > 12 ? '; and ' + (r.differing - 12) + ' more' : '') : (r.sound === null ? '' : 'nothing'));
  row('invariants', r.sound === null ? '' : r.sound ? 'all hold' : 'broken');
  const head = el('h2', '', r.kept === true ? 'The promise was kept' : r.kept === false ? 'The promise was broken' : 'Nothing was promised');
  const nav = el('div', 'nav');
  const back = el('button', '', 'Back to before the cut'); back.id = 'b-uncut';
  back.onclick = attempt(async () => { const was = before.pop(); if (was) await take(await call('run?id=' + was.run.id), was.at); });
  back.hidden = !before.length;
  const onward = el('button', '', 'Go on from here'); onward.id = 'b-onward';
  onward.onclick = attempt(async () => { const from = run.steps.length; await more(); await go(whole(Math.min(from, run.steps.length - 1))); });
  onward.hidden = r.sound === null;
  nav.append(onward, ' ', back);
  box.replaceChildren(head, el('p', '', r.verdict), list, nav);
}

// ---- scenes

function showStop() {
  const box = $('stop');
  box.hidden = !run.stops.length;
  if (box.hidden) return;
  const here = run.stops.findIndex((s, i) => i === stopAt && s.at.step === at.step && s.at.event === at.event);
  const first = here >= 0 ? here : run.stops.findIndex(s => s.at.step === at.step && s.at.event === at.event);
  stopAt = first >= 0 ? first : stopAt;
  const shown = run.stops[Math.max(0, stopAt)];
  const nav = el('div', 'nav');
  const prev = el('button', '', '\u2039 Previous'), next = el('button', 'primary', 'Next \u203A');
  prev.id = 'b-stop-prev'; next.id = 'b-stop-next';
  prev.disabled = stopAt <= 0; next.disabled = stopAt >= run.stops.length - 1;
  prev.onclick = attempt(() => stopTo(stopAt - 1)); next.onclick = attempt(() => stopTo(stopAt + 1));
  nav.append(prev, next, el('span', 'quiet', (Math.max(0, stopAt) + 1) + ' of ' + run.stops.length));
  const had = document.activeElement && document.activeElement.id;
  box.replaceChildren(el('h2', '', shown.title), el('p', '', shown.text), nav);
  if (had === 'b-stop-next' || had === 'b-stop-prev') { const again = $(had); (again.disabled ? (had === 'b-stop-next' ? prev : next) : again).focus(); }
}
async function stopTo(number) {
  if (number < 0 || number >= run.stops.length) return;
  pause(); stopAt = number;
  await go(run.stops[number].at);
}
async function scene(name) {
  pause();
  const made = await call('scene', { name });
  before = [];
  await take(made, made.stops[0].at);
  for (const b of $('scenes').children) b.setAttribute('aria-pressed', String(b.dataset.scene === name));
  const known = about.scenes.find(s => s.name === name);
  $('lead').textContent = known.paper + ': ' + known.title + '. A recorded run of the real index; explained in ' + known.page + '.';
  history.replaceState(null, '', '#' + name);
}

// ---- drawing

const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(2) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(2) + ' ms' : Math.round(ns / 1e3) + ' \u00B5s';
function focusPages() { const s = run.stops[stopAt]; return s && s.at.step === at.step && s.at.event === at.event ? new Set(s.pages) : new Set(); }
function touched() {
  const read = new Set(), program = new Set(), erase = new Set();
  state.events.slice(0, at.event).forEach(e => { if (e.what === 'read') read.add(e.at); else if (e.what === 'program') program.add(e.at); else if (e.what === 'erase') erase.add(e.at); });
  return { read, program, erase };
}
function render() {
  const s = run.steps[at.step], marks = touched(), focus = focusPages();
  $('step-what').textContent = 'step ' + at.step + ' of ' + (run.steps.length - 1) + ': ' + s.what;
  const partial = at.event < s.events;
  $('step-outcome').textContent = partial ? '(under way)' : '\u2192 ' + s.outcome + (s.ns ? ' \u00B7 ' + time(s.ns) : '');
  $('step-outcome').className = s.failed && !partial ? 'failed' : '';
  $('fine').textContent = 'chip ' + at.event + ' of ' + s.events;
  $('b-first').disabled = $('b-back').disabled = at.step === 0 && !partial;
  $('b-last').disabled = at.step === run.steps.length - 1 && !partial;
  $('b-forth').disabled = $('b-last').disabled;
  $('b-fine-back').disabled = at.step === 0 && at.event === 0;
  $('b-fine-forth').disabled = at.step === run.steps.length - 1 && !partial;
  if (!$('cut-box').hidden) $('cut-next').textContent = state.next_change;
  drawEvents(); drawSpark(); drawChip(marks, focus); drawTree(marks, focus); drawFigures(); showStop();
  document.body.dataset.place = run.id + ':' + at.step + ':' + at.event;
}
function drawEvents() {
  const shown = state.events.slice(0, 240);
  $('events').replaceChildren(...shown.map((e, i) => {
    const b = el('button', 'ev ' + e.what + (i < at.event ? ' done' : '') + (i === at.event - 1 ? ' now' : '') + (e.failed ? ' failed' : ''), e.what[0].toUpperCase() + ' ' + e.at);
    b.title = e.what + (e.what === 'erase' ? ' of block ' : ' of page ') + e.at + ', ' + e.cause.replace(/_/g, ' ');
    b.tabIndex = -1; b.onclick = attempt(() => go({ step: at.step, event: i + 1 }));
    return b;
  }), ...(state.events.length > 240 ? [el('span', 'quiet', 'and ' + (state.events.length - 240) + ' more')] : []));
}
function drawSpark() {
  const c = $('spark'), w = c.clientWidth, h = 34, scale = window.devicePixelRatio || 1;
  if (!w) return;
  c.width = w * scale; c.height = h * scale;
  const g = c.getContext('2d'), css = getComputedStyle(document.documentElement), n = run.steps.length;
  g.scale(scale, scale);
  const most = Math.max(1, ...run.steps.slice(1).map(s => s.programs + s.reads));
  const heightOf = v => v ? Math.max(1.5, Math.sqrt(v / most) * (h - 4)) : 0;
  run.steps.forEach((s, i) => {
    if (!i) return;
    const x = i / Math.max(1, n - 1) * (w - 16) + 8, bar = Math.max(1, Math.min(5, w / n - 1));
    g.fillStyle = css.getPropertyValue('--c-inner'); g.globalAlpha = .45; g.fillRect(x - bar / 2, h - heightOf(s.programs + s.reads), bar, heightOf(s.programs + s.reads));
    g.globalAlpha = 1; g.fillStyle = css.getPropertyValue(s.erases ? '--danger' : '--c-leaf'); g.fillRect(x - bar / 2, h - heightOf(s.programs), bar, heightOf(s.programs));
  });
  g.fillStyle = css.getPropertyValue('--glow'); g.fillRect(at.step / Math.max(1, n - 1) * (w - 16) + 7, 0, 2, h);
}
function drawChip(marks, focus) {
  const per = run.chip.pages, box = $('chip');
  $('chip-name').textContent = run.chip.name + ', ' + run.chip.blocks + ' blocks of ' + per + ' pages';
  if (box.children.length !== state.blocks.length || box.dataset.per !== String(per)) {
    box.dataset.per = per;
    box.replaceChildren(...state.blocks.map((_, b) => {
      const block = el('div', 'block'), top = el('div', 'top'), cells = el('div', 'cells');
      top.append(el('b', '', String(b)), el('span', ''), el('span', ''));
      for (let p = 0; p < per; p++) { const cell = el('div', 'cell'); cell.dataset.page = b * per + p; cells.append(cell); }
      block.append(top, cells);
      return block;
    }));
    if (per > 32) box.querySelectorAll('.cells').forEach(c => { c.style.gridTemplateColumns = 'repeat(' + Math.ceil(Math.sqrt(per)) + ', 1fr)'; c.style.gap = '1px'; });
  }
  state.blocks.forEach((b, i) => {
    const block = box.children[i], top = block.firstChild.children;
    block.className = 'block' + (b.bad ? ' bad' : '') + (marks.erase.has(i) ? ' erased' : '');
    top[1].textContent = b.label; top[2].textContent = b.wear ? b.wear + '\u00D7' : '';
    block.title = 'block ' + i + ': ' + b.label + ', erased ' + b.wear + ' times';
  });
  box.querySelectorAll('.cell').forEach((cell, i) => {
    const [role, life] = state.pages[i];
    cell.className = 'cell r-' + role + (marks.program.has(i) ? ' program' : marks.read.has(i) ? ' read' : '') + (focus.has(i) ? ' focus' : '') + (i === cursor ? ' cursor' : '');
    cell.dataset.life = life;
  });
  const roles = [...new Set(state.pages.map(p => p[0]))].filter(r => r !== 'erased').sort();
  const names = { root: 'root', inner: 'inner nodes', leaf: 'leaf', journal: 'leaf whose parent is told later', log: 'log of changes', commit: 'commit page', run: 'records in order', summary: 'summary',
    data: 'logical page', map: 'mapping table', trim: 'trims', checkpoint: 'checkpoint', anchor: 'anchor', super: 'superblock', torn: 'not whole', unknown: 'unknown' };
  const entry = (cls, text) => { const s = el('span'); s.append(el('i', cls), text); return s; };
  $('legend').replaceChildren(...roles.map(r => entry('r-' + r, names[r] || r)), entry('dead', 'no longer counts'), entry('free', 'erased'));
  if (cursor >= 0) describe(cursor);
}
function describe(page) {
  if (!state || !state.pages[page]) return;
  const [role, life, title] = state.pages[page], words = { live: 'it counts', own: 'bookkeeping', dead: 'it no longer counts', free: 'erased' };
  $('hover').textContent = 'page ' + page + ' (block ' + Math.floor(page / run.chip.pages) + '): ' + title + (role === 'erased' ? '' : '. ' + words[life][0].toUpperCase() + words[life].slice(1) + '.');
}
function drawTree(marks, focus) {
  const t = state.tree, levels = new Map(), most = 90;
  t.nodes.forEach((n, i) => { if (!levels.has(n.level)) levels.set(n.level, []); levels.get(n.level).push(i); });
  const sorted = [...levels.keys()].sort((a, b) => b - a);
  $('tree-name').textContent = t.nodes.length ? t.nodes.length + ' nodes, ' + state.records + ' records, height ' + (state.height || sorted.length) : '';
  $('tree').replaceChildren(...sorted.map(level => {
    const row = el('div', 'row'), box = el('div', 'level'), all = levels.get(level);
    let show = all;
    if (all.length > most) show = all.filter((i, k) => k < most - 20 || marks.program.has(t.nodes[i].page) || focus.has(t.nodes[i].page) || marks.read.has(t.nodes[i].page));
    box.append(el('div', 'name', (level === 1 && sorted.length > 1 ? 'leaves' : level === sorted[0] && all.length === 1 ? 'root' : 'level ' + level) + ', ' + all.length + (show.length < all.length ? ' (' + show.length + ' shown)' : '')), row);
    row.append(...show.map(i => {
      const n = t.nodes[i], role = n.parent === null && all.length === 1 ? 'root' : level === 1 ? 'leaf' : 'inner';
      const b = el('button', 'node r-' + role + (marks.program.has(n.page) ? ' new' : marks.read.has(n.page) ? ' read' : '') + (focus.has(n.page) ? ' focus' : ''));
      b.append(el('b', '', n.keys[0] === n.keys[1] ? n.keys[0] || '-' : n.keys[0] + ' \u2026 ' + n.keys[1]), 'page ' + n.page + ', ' + n.entries + '/' + n.capacity);
      const bar = el('div', 'bar'), inside = el('i'); inside.style.width = (n.capacity ? 100 * n.entries / n.capacity : 0) + '%'; bar.append(inside); b.append(bar);
      b.title = (n.mixed ? 'records and children in one node; ' : '') + 'page ' + n.page; b.onclick = attempt(() => openPage(n.page));
      return b;
    }));
    return box;
  }));
  $('tree-note').textContent = t.note;
}
function drawFigures() {
  const old = new Map(state.metrics_before);
  $('ram-name').textContent = state.ram ? state.ram.toLocaleString('en') + ' bytes held' : '';
  $('metrics').tBodies[0].replaceChildren(...state.metrics.map(([name, value]) => {
    const row = el('tr'), was = old.has(name) ? old.get(name) : value, change = value - was;
    row.append(el('td', '', name.replace(/_/g, ' ')), el('td', '', value.toLocaleString('en')), el('td', change > 0 ? 'up' : change < 0 ? 'down' : '', change ? (change > 0 ? '+' : '') + change : ''));
    return row;
  }));
  $('totals').tBodies[0].replaceChildren(...state.totals.map(([cause, r, p, e]) => { const row = el('tr'); row.append(el('td', '', cause.replace(/_/g, ' ')), el('td', '', r), el('td', '', p), el('td', '', e)); return row; }));
}

// ---- a page byte by byte

async function openPage(page) {
  pause();
  const p = await call('page?id=' + run.id + '&step=' + at.step + '&event=' + at.event + '&page=' + page);
  $('page-title').textContent = 'Page ' + p.page + ' (block ' + p.block + ', page ' + p.in_block + '): ' + p.title;
  $('page-life').textContent = p.life_words[0].toUpperCase() + p.life_words.slice(1) + '.' + (p.note ? ' ' + p.note : '');
  const hex = $('page-hex'), wide = window.innerWidth < 520 ? 8 : 16, owner = { data: [], spare: [] };
  p.fields.forEach((f, i) => { for (let b = f.at; b < f.at + f.bytes; b++) owner[f.area][b] = i; });
  const parts = [];
  for (const area of ['data', 'spare']) {
    const text = p[area], bytes = text.length / 2;
    if (!bytes) continue;
    parts.push(el('span', 'area', (parts.length ? '\n' : '') + area + ' area, ' + bytes + ' bytes\n'));
    for (let row = 0; row < bytes; row += wide) {
      parts.push(el('span', 'off', String(row).padStart(5) + '  '));
      for (let b = row; b < Math.min(bytes, row + wide); b++) {
        const i = owner[area][b], cell = el('i', i === undefined ? '' : 'f' + i % 2, text.slice(2 * b, 2 * b + 2));
        if (i !== undefined) cell.dataset.field = i;
        parts.push(cell, ' ');
      }
      parts.push('\n');
    }
  }
  hex.replaceChildren(...parts);
  const list = $('page-fields');
  list.replaceChildren(...p.fields.map((f, i) => {
    const row = el('div', 'field'), text = el('div'); row.dataset.field = i;
    text.append(el('b', '', f.name), f.value ? ' = ' + f.value : '');
    row.append(el('span', 'where', (f.area === 'spare' ? 's ' : '') + f.at + '..' + (f.at + f.bytes)), text);
    return row;
  }));
  if (!p.fields.length) list.append(el('p', 'quiet', p.role === 'erased' ? 'Nothing was programmed here.' : 'No field of it is known.'));
  const light = i => { document.querySelectorAll('#page-box .on').forEach(e => e.classList.remove('on')); if (i !== undefined) document.querySelectorAll('#page-box [data-field="' + i + '"]').forEach(e => e.classList.add('on')); };
  list.onmouseover = hex.onmouseover = e => { const t = e.target.closest('[data-field]'); light(t ? t.dataset.field : undefined); };
  hex.onclick = e => { const t = e.target.closest('[data-field]'); if (t) list.children[t.dataset.field].scrollIntoView({ block: 'center' }); };
  if (!$('page-box').open) $('page-box').showModal();
}

// ---- wiring

const cellOf = e => { const c = e.target.closest('.cell'); return c ? Number(c.dataset.page) : -1; };
$('chip').onmouseover = e => { const p = cellOf(e); if (p >= 0) describe(p); };
$('chip').onclick = attempt(async e => { const p = cellOf(e); if (p >= 0) { cursor = p; await openPage(p); } });
$('chip').onkeydown = e => {
  const per = run.chip.pages, all = state.pages.length, wide = per > 32 ? Math.ceil(Math.sqrt(per)) : 8;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide, PageDown: per, PageUp: -per }[e.key];
  if (by && !e.shiftKey) { cursor = cursor < 0 ? 0 : Math.min(all - 1, Math.max(0, cursor + by)); document.querySelectorAll('.cell.cursor').forEach(c => c.classList.remove('cursor'));
    const c = document.querySelectorAll('.cell')[cursor]; c.classList.add('cursor'); c.scrollIntoView({ block: 'nearest' }); describe(cursor); e.preventDefault(); e.stopPropagation(); }
  if (e.key === 'Enter' && cursor >= 0) { attempt(openPage)(cursor); e.preventDefault(); }
};
$('setup').onsubmit = attempt(async e => { e.preventDefault(); pause(); before = []; const made = await call('run', setup()); for (const b of $('scenes').children) b.setAttribute('aria-pressed', 'false');
  $('lead').textContent = 'An index on a simulated chip, step by step. What you see is told from the bytes on the chip.'; history.replaceState(null, '', '#'); await take(made); });
for (const id of ['f-index', 'f-chip']) $(id).onchange = choices;
$('b-first').onclick = attempt(() => { pause(); return go(whole(0)); });
$('b-last').onclick = attempt(() => { pause(); return go(whole(run.steps.length - 1)); });
$('b-back').onclick = attempt(() => { pause(); return step(-1); });
$('b-forth').onclick = attempt(() => { pause(); return step(1); });
$('b-fine-back').onclick = attempt(() => { pause(); return fine(-1); });
$('b-fine-forth').onclick = attempt(() => { pause(); return fine(1); });
$('b-play').onclick = play;
$('b-cut').onclick = offerCut;
$('slider').oninput = attempt(() => { pause(); return go(whole(Number($('slider').value))); });
window.onresize = () => { if (state) drawSpark(); };
document.addEventListener('keydown', attempt(async e => {
  if (!run || $('page-box').open || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.id !== 'slider') return;
  const keys = { ' ': play, ArrowLeft: () => { pause(); return e.shiftKey ? fine(-1) : step(-1); }, ArrowRight: () => { pause(); return e.shiftKey ? fine(1) : step(1); },
    Home: () => { pause(); return go(whole(0)); }, End: () => { pause(); return go(whole(run.steps.length - 1)); }, c: offerCut, n: () => stopTo(stopAt + 1), p: () => stopTo(stopAt - 1),
    Escape: () => { $('cut-box').hidden = true; } };
  const act = keys[e.key];
  if (!act || (e.key === ' ' && /^(BUTTON|SUMMARY)$/.test(e.target.tagName))) return;
  e.preventDefault(); await act();
}));
attempt(async () => {
  about = await call('about');
  fill('f-index', about.indexes.map(i => [i.name, i.name + (i.spatial ? ' (spatial)' : '')])); fill('f-ftl', about.ftls.map(f => [f.name])); fill('f-chip', about.chips.map(c => [c.name]));
  fill('f-workload', about.workloads.map(w => [w.name, w.name + ': ' + w.summary])); fill('f-durability', about.durabilities.map(d => [d]));
  choices();
  $('scenes').replaceChildren(...about.scenes.map(s => { const b = el('button', '', s.title); b.dataset.scene = s.name; b.append(el('small', '', s.paper)); b.setAttribute('aria-pressed', 'false'); b.onclick = attempt(() => scene(s.name)); return b; }));
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (about.scenes.some(s => s.name === wanted)) await scene(wanted); else await take(await call('run', { index: 'mu' }));
  document.body.dataset.ready = 'yes';
})();
