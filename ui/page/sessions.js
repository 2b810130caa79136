// The service sessions that have entries, and the session of the page's own server.

import { button, buttons, show } from './dialogs.js';
import { model, ownerOf, sessions } from './model.js';
import { clock, el, fill, name, number, plural, span, write } from './text.js';
import { Rows, rowsHost } from './rows.js';

const section = () => document.getElementById('sessions');
const own = el('div', { class: 'own', 'aria-label': 'The session of this page' });
const search = el('input', { type: 'search', placeholder: 'Search: host, label, session', 'aria-label': 'Search sessions', autocomplete: 'off', spellcheck: 'false' });
const summary = el('p', { class: 'summary' });
const host = rowsHost('Sessions, those with most entries first', 'session-rows');
const scroller = el('div', { class: 'scroll' }, host);
let rows;

export function init({ draw: redraw }) {
  section().append(el('div', { class: 'tools' }, own, el('label', { class: 'search' }, search), summary), scroller);
  rows = new Rows({ host, scroller, key: (s) => s.id, create, update, open: entriesDialog });
  search.addEventListener('input', redraw);
}

export function draw() {
  const all = sessions(search.value);
  write(summary, model.status.at || all.length ? plural(all.length, 'session') + ' with entries' : 'Not read yet');
  rows.set(all);
  drawOwn();
}

export function tick() {
  rows.tick();
}

// drawOwn shows the health of the page's own session, with its slack.
function drawOwn() {
  const h = model.status.health ?? {};
  const text = JSON.stringify([h.ready, h.left, h.err, h.host, h.label]);
  if (own.dataset.drawn === text) return;
  own.dataset.drawn = text;
  const slack = el('meter', { min: 0, max: h.ttl || 1, low: (h.ttl || 1) / 4, optimum: h.ttl || 1, value: h.left ?? 0, 'aria-label': 'Slack' });
  fill(
    own,
    el('strong', {}, 'This page'),
    el('span', {}, el('bdi', {}, ownerOf({ ...h, key: 'a closed session' }))),
    h.ready
      ? el('span', { class: 'slack' }, slack, `slack ${span(h.left)} of a TTL of ${span(h.ttl)}`)
      : el('span', { class: 'warn' }, `no session${h.since ? ` since ${clock(h.since)}` : ''}: `, el('bdi', {}, h.err ?? '')),
  );
}

function create() {
  const row = el('div', { class: 'session' });
  const p = (row.parts = { who: el('bdi', { class: 'who' }), counts: el('span', { class: 'wait' }), id: name('', 'val id'), ttl: el('span', { class: 'chip' }), locks: el('bdi', { class: 'val' }) });
  row.append(el('div', { class: 'line' }, p.who, p.counts), el('div', { class: 'line dim' }, p.ttl, p.id, p.locks));
  return row;
}

function update(row, s) {
  const p = row.parts;
  row.dataset.state = s.unleased ? 'bad' : s.holds ? 'holder' : 'waiter';
  write(p.who, ownerOf(s));
  write(p.counts, [s.holds ? `holds ${number(s.holds)}` : '', s.waits ? `waits for ${number(s.waits)}` : ''].filter(Boolean).join(', '));
  write(p.id, s.id);
  p.id.title = s.id;
  write(p.ttl, s.ttl ? `TTL ${span(s.ttl)}` : s.unleased ? 'no session' : 'TTL not known');
  write(p.locks, s.entries.slice(0, 8).map((x) => x.lock.show).join(', '));
}

// entriesDialog lists the entries of a session.
function entriesDialog(s) {
  const most = 200;
  const close = () => document.getElementById('dialog').close();
  return show(
    el('bdi', {}, ownerOf(s)),
    el('p', { class: 'dim' }, 'Session ', name(s.id, 'val')),
    el(
      'ul',
      { class: 'entries' },
      ...s.entries.slice(0, most).map(({ lock, entry }) =>
        el('li', {}, el('a', { href: `#/lock/${encodeURIComponent(lock.name)}`, onclick: close }, name(lock.show)), ` ${entry.holder ? 'holds' : 'waits'}, token ${entry.token}`),
      ),
    ),
    s.entries.length > most ? el('p', {}, `and ${number(s.entries.length - most)} more`) : '',
    buttons(button('Close', { autofocus: true }, close)),
  );
}
