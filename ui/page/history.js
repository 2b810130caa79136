// The history strip: who held when, as far as the server saw it.

import { model, ownerOf } from './model.js';
import { clock, el, fill, span, write } from './text.js';

const window = 10 * 60_000; // at most this much is drawn
const lanes = 6;

// Why a hold ended is not known, only that its entry is gone.
const ended = 'released or evicted, or ended with its session';

// unseen reports whether a queue was not read for longer than reads ever take: no page was open, or
// the service did not answer. What happened in that time is not known.
const unseen = (ms) => ms > 3 * model.interval + 2000;

// known returns the time up to which a hold is known to have lasted, and whether it may have lasted
// for longer. at is when the queue was read last.
function known(h, now, at) {
  const seen = h.to ? h.seen : Math.max(h.seen, at);
  const to = h.to || now;
  return unseen(to - seen) ? { to: seen, least: true } : { to, least: false };
}

export class History {
  constructor() {
    this.strip = el('div', { class: 'strip', role: 'img' });
    this.from = el('span');
    this.to = el('span', {}, 'now');
    this.table = el('tbody');
    this.details = el(
      'details',
      {},
      el('summary', {}, 'As a table'),
      el(
        'div',
        { class: 'scroll-x', tabindex: 0, role: 'group', 'aria-label': 'Holds as a table' },
        el('table', {}, el('thead', {}, el('tr', {}, ...['Token', 'Holder', 'From', 'For', 'End'].map((h) => el('th', { scope: 'col' }, h)))), this.table),
      ),
    );
    this.element = el('section', { class: 'history', 'aria-label': 'History' }, el('h3', {}, 'Who held'), this.strip, el('div', { class: 'axis' }, this.from, this.to), this.legend(), this.details);
    this.bars = new Map();
  }

  legend() {
    const item = (end, text) => el('span', { class: 'key' }, el('i', { 'data-end': end }), text);
    return el('div', { class: 'legend' }, item('', 'holds'), item('gone', 'ended'));
  }

  // draw draws holds up to now. at is when the queue was read last.
  draw(holds, now, at) {
    this.element.hidden = !holds.length;
    if (!holds.length) return;
    const begin = Math.max(now - window, Math.min(...holds.map((h) => h.from), now - 60_000));
    const width = now - begin;
    const free = []; // until when each lane is taken
    const seen = new Set();
    let shown = 0;
    for (const h of holds) {
      const { to, least } = known(h, now, at);
      if (to < begin) continue;
      let lane = free.findIndex((t) => t <= h.from);
      if (lane < 0) lane = free.length < lanes ? free.length : lanes - 1;
      free[lane] = to;
      seen.add(h.token);
      shown++;
      this.bar(h, least, lane, ((Math.max(h.from, begin) - begin) / width) * 100, ((to - Math.max(h.from, begin)) / width) * 100);
    }
    for (const [token, bar] of this.bars) {
      if (!seen.has(token)) {
        bar.remove();
        this.bars.delete(token);
      }
    }
    this.strip.style.setProperty('--lanes', Math.max(1, free.length));
    this.strip.setAttribute('aria-label', `${shown} holds in the last ${span(width)}. The table below has them all.`);
    write(this.from, `${span(width)} ago`);
    if (this.details.open) this.tabulate(holds, now, at);
  }

  bar(h, least, lane, left, width) {
    let bar = this.bars.get(h.token);
    if (!bar) {
      bar = el('span', { class: 'bar' }, el('bdi'));
      this.bars.set(h.token, bar);
      this.strip.append(bar);
    }
    bar.dataset.end = h.to ? 'gone' : '';
    bar.style.left = `${left}%`;
    bar.style.width = `${Math.max(width, 0.3)}%`;
    bar.style.setProperty('--lane', lane);
    const seen = least ? `, seen last at ${clock(h.seen)}` : '';
    bar.title = `${ownerOf(h)}, token ${h.token}, from ${clock(h.from)}${seen}${h.to ? `${least ? ', gone at' : ' to'} ${clock(h.to)}: ${ended}` : ', holds'}`;
    write(bar.firstChild, width > 8 ? h.label || h.host || h.token : '');
  }

  tabulate(holds, now, at) {
    const text = JSON.stringify([holds, unseen(now - at)]);
    if (text === this.filled) return;
    this.filled = text;
    fill(
      this.table,
      ...[...holds].reverse().map((h) =>
        el(
          'tr',
          {},
          el('td', {}, h.token),
          el('td', {}, el('bdi', {}, ownerOf(h))),
          el('td', {}, `${h.sure ? '' : 'seen '}${clock(h.from)}`),
          el('td', {}, lasted(h, now, at)),
          el('td', {}, h.to ? ended : 'holds'),
        ),
      ),
    );
  }
}

// lasted is for how long a hold has lasted, as text.
function lasted(h, now, at) {
  const { to, least } = known(h, now, at);
  return `${least ? 'at least ' : ''}${span(to - h.from)}`;
}

// hints returns what the past of a lock means for its waiters. Holds of which the end was not seen
// count for as long as they were seen, and tell nothing of the usual length.
export function hints(holds, lock, now) {
  const past = holds.filter((h) => h.to && !known(h, now, lock.at).least).sort((a, b) => a.to - b.to);
  if (past.length < 3) return [];
  const took = past.map((h) => h.to - h.from).sort((a, b) => a - b);
  const median = took[Math.floor(took.length / 2)];
  const batches = lock.entries.filter((e) => !e.holder && !e.with).length;
  // Between two ends, without the time in which none held, or none was seen to hold.
  const period = past.slice(1).reduce((sum, h, i) => sum + h.to - Math.max(h.from, past[i].to), 0) / (past.length - 1);
  const all = [`The median hold takes ${span(median)}, the longest ${span(took.at(-1))}, of ${past.length} that were seen to end.`];
  if (batches && period > 0) all.push(`At this pace ${lock.waiters === 1 ? 'the waiter' : `the last of ${lock.waiters} waiters`} holds in about ${span(batches * period)}.`);
  const by = new Map();
  for (const h of holds) by.set(h.label || h.host || 'others', (by.get(h.label || h.host || 'others') ?? 0) + known(h, now, lock.at).to - h.from);
  const total = [...by.values()].reduce((a, b) => a + b, 0);
  const [most, time] = [...by].sort((a, b) => b[1] - a[1])[0];
  if (by.size > 1 && time > total / 2) all.push(`${most} held for ${Math.round((time / total) * 100)} % of that time.`);
  return all;
}
