// The list of locks, and the pane with the open one.

import { found, inDeadlock, kind, model, now, ownerOf } from './model.js';
import { announce, el, level, name, number, plural, short, write } from './text.js';
import { Rows } from './rows.js';
import { Detail } from './detail.js';

const $ = (id) => document.getElementById(id);
let rows;
let detail;
let redraw;
let open = null; // the name of the open lock
let stuck = new Set();

export function init({ draw, toast }) {
  redraw = draw;
  rows = new Rows({
    host: $('list'),
    scroller: $('list-scroll'),
    key: (lock) => lock.n,
    create,
    update,
    open: (lock) => (location.hash = `#/lock/${encodeURIComponent(lock.name)}`),
  });
  detail = new Detail($('detail'), toast);
  $('search').addEventListener('input', () => {
    redraw();
    announce(`Found ${plural(found($('search').value).length, 'lock')}`);
  });
  $('search').addEventListener('keydown', (e) => {
    if (e.key === 'ArrowDown' || e.key === 'Enter') {
      e.preventDefault();
      $('list').focus();
    } else if (e.key === 'Escape') {
      e.target.value = '';
      redraw();
    }
  });
}

// show opens a lock; null closes it.
export function show(lockName) {
  const before = open;
  open = lockName;
  document.body.classList.toggle('open', open !== null);
  if (open !== before) {
    detail.open(open);
    if (open !== null && matchMedia('(max-width: 820px)').matches) $('detail').focus();
  }
}

export function draw() {
  stuck = inDeadlock();
  const all = found($('search').value);
  let waiters = 0;
  for (const lock of all) waiters += lock.waiters;
  const filtered = $('search').value.trim() !== '';
  const s = model.status;
  const unread = s.unread ? `; ${plural(s.unread, 'lock')} cannot be read${s.unread > 1 ? '. The first' : ''}: ${s.why}` : '';
  write($('summary'), !s.at && !all.length ? 'Not read yet' : `${filtered ? 'Found ' : ''}${plural(all.length, 'lock')}${filtered ? ` of ${number(model.locks.size)}` : ''}, ${plural(waiters, 'waiter')}${unread}`);
  const empty = $('empty');
  empty.hidden = all.length > 0;
  if (!all.length) {
    let text = 'No lock has a holder or a waiter. A lock shows up here when a program asks for it.';
    if (!s.at) text = s.err ? 'The queues are not read yet.' : 'Reading the queues …';
    else if (filtered) text = 'No lock, host, label, session or value contains this text.';
    else if (s.unread) text = 'No lock can be read that has a holder or a waiter.';
    write(empty, text);
  }
  rows.set(all);
  rows.select(model.byName.get(open)?.n ?? null);
  detail.draw();
}

export function tick() {
  rows.tick();
  detail.tick();
}

function create() {
  const row = el('div', { class: 'lock' });
  row.parts = {
    name: name('', 'name lock-name'),
    wait: el('span', { class: 'wait' }),
    kind: el('span', { class: 'chip' }),
    holder: el('bdi', { class: 'holder' }),
    waiters: el('span', { class: 'waiters' }),
  };
  const p = row.parts;
  row.append(el('div', { class: 'line' }, p.name, p.wait), el('div', { class: 'line dim' }, p.kind, p.holder, p.waiters));
  return row;
}

function update(row, lock) {
  const p = row.parts;
  const waits = lock.oldest ? Math.max(0, now() - lock.oldest) : 0;
  const bad = stuck.has(lock.name);
  row.dataset.level = bad || lock.orphan ? 'deadlock' : lock.waiters && lock.kind !== 'election' ? level(waits) : '';
  if (p.name.textContent !== lock.show) {
    p.name.textContent = lock.show;
    p.name.title = lock.show;
  }
  write(p.wait, bad ? `deadlock ${short(waits)}` : lock.orphan ? 'no session' : lock.waiters ? (lock.oldest ? (lock.least ? '≥ ' : '') + short(waits) : 'waiting') : '');
  p.wait.title = lock.waiters ? 'how long the oldest waiter has waited' : '';
  write(p.kind, kind(lock));
  write(p.holder, holders(lock));
  write(p.waiters, lock.waiters ? `${number(lock.waiters)} waiting` : 'no waiter');
}

// holders names the first holder, a leader by its value, and how many there are besides.
function holders(lock) {
  if (!lock.holders) return lock.hidden?.holder ? 'a holder that cannot be read' : 'no holder';
  const first = lock.entries[0];
  const text = first.value && first.host ? `${first.value} (${ownerOf({ ...first, label: '' })})` : ownerOf(first);
  return lock.holders > 1 ? `${text} +${number(lock.holders - 1)}` : text;
}
