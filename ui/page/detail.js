// The open lock: what to do, its past, and its queue as cards in order.

import { kind, model, now, ownerOf } from './model.js';
import { clock, command, el, fill, level, lockLink, name, number, plural, span, write } from './text.js';
import { past } from './net.js';
import { Rows, rowsHost } from './rows.js';
import { advice } from './advice.js';
import { hints, History } from './history.js';
import { askDialog, entryDialog, withdraw } from './dialogs.js';

export class Detail {
  constructor(pane, toast) {
    this.pane = pane;
    this.toast = toast;
    this.name = null;
    this.past = null;
    this.asked = 0;
    this.head = el('header', { class: 'lock-head' });
    this.advice = el('section', { class: 'advice', 'aria-label': 'What to do' });
    this.history = new History();
    this.hints = el('ul', { class: 'hints', 'aria-label': 'Contention' });
    this.host = rowsHost('The queue, in order', 'cards');
    this.rows = new Rows({ host: this.host, scroller: pane, key: (e) => e.id, create, update: (row, e, i) => update(row, e, i), open: (e) => this.entry(e) });
    this.body = el('div', { class: 'detail-body' }, this.head, this.advice, this.history.element, this.hints, el('h3', {}, 'Queue'), this.host);
    this.none = el('div', { class: 'empty' });
    pane.append(this.none, this.body);
  }

  // open shows another lock.
  open(lockName) {
    this.name = lockName;
    this.past = null;
    this.rev = -1;
    this.drawn = '';
    this.pane.scrollTop = 0;
    this.rows.active = null;
    if (lockName !== null) this.ask();
  }

  get lock() {
    return model.byName.get(this.name);
  }

  // ask loads the past of the lock, and has the server read the lock first.
  async ask() {
    const lockName = this.name;
    this.asked = Date.now();
    const found = await past(lockName);
    if (found && lockName === this.name) {
      this.past = found;
      if (!this.lock) return this.drawNone();
      this.drawPast();
      this.drawHead();
      this.rows.render();
    }
  }

  draw() {
    const lock = this.lock;
    this.body.hidden = !lock;
    this.none.hidden = !!lock;
    if (!lock) return this.drawNone();
    if (lock.rev !== this.rev) {
      this.rev = lock.rev;
      clearTimeout(this.later); // twice a second is enough, however fast the queue moves
      this.later = setTimeout(() => this.name !== null && this.ask(), Math.max(0, 500 - (Date.now() - this.asked)));
    }
    this.drawHead();
    this.drawAdvice();
    this.drawPast();
    this.rows.set(lock.entries); // after the elements above it
  }

  tick() {
    if (this.name !== null && Date.now() - this.asked > 5000) this.ask();
    if (!this.lock) return;
    this.drawHead();
    this.drawAdvice();
    this.drawPast();
    this.rows.render(); // after the elements above it
  }

  drawNone() {
    if (this.name === null) {
      write(this.none, 'Open a lock to see its queue, its past, and what to do. The list begins with the lock whose oldest waiter waits longest. Elections come last.');
      return;
    }
    const { err } = model.status;
    let is = ' has no holder and no waiter now. It shows up again when a program asks for it.';
    if (this.past?.err) is = ` cannot be read: ${this.past.err}.`;
    else if (!this.past || this.past.unread) is = err ? ' is not read yet.' : ' is being read …';
    else if (err) is = ' had no holder and no waiter when it was last read.';
    const text = this.name + is;
    if (this.none.dataset.drawn === text && this.none.childElementCount) return;
    this.none.dataset.drawn = text;
    fill(
      this.none,
      el('p', {}, name(this.name), is),
      el('p', {}, el('a', { href: '#/locks' }, 'All locks')),
    );
  }

  drawHead() {
    const lock = this.lock;
    if (!lock) return;
    const held = lock.limit
      ? lock.permits > lock.limit
        ? `${plural(lock.permits, 'permit')} held, limit ${number(lock.limit)}`
        : `${number(lock.permits)} of ${plural(lock.limit, 'permit')} held`
      : lock.hidden?.holder
        ? 'a holder that cannot be read'
        : plural(lock.holders, lock.kind === 'election' ? 'leader' : 'holder');
    const age = Math.max(0, now() - lock.at);
    const facts = [kind(lock), held, plural(lock.waiters, 'waiter'), age < 2000 ? 'read just now' : `read ${span(age)} ago`];
    const unread = this.past?.err ? [`cannot be read any more: ${this.past.err}`] : [];
    const { hidden } = lock;
    if (hidden) unread.push(`${hidden.n === 1 ? '1 entry' : `${number(hidden.n)} entries`} that this login may not read ${hidden.n === 1 ? 'is' : 'are'} in the queue, without a card: ${hidden.n === 1 ? '' : 'the first is '}${hidden.first}`);
    const asks = (lock.asks ?? []).map((a) => `asked to yield by ${ownerOf({ ...a, key: 'an unnamed client' })}${a.since ? ` since ${clock(a.since)}` : ''}${a.reason ? `: ${a.reason}` : ''}`);
    const text = JSON.stringify([lock.n, facts.slice(0, 3), unread, asks, model.evict, this.past?.asked]);
    if (text !== this.drawn) {
      this.drawn = text;
      const button = el('button', { type: 'button', class: 'act', onclick: () => this.yield() }, this.past?.asked ? 'Withdraw the yield request' : 'Ask to yield …');
      this.age = el('span');
      const focused = this.head.contains(document.activeElement) && document.activeElement.tagName;
      fill(
      this.head,
        el('a', { class: 'back', href: '#/locks' }, '‹ All locks'),
        el('div', { class: 'title' }, el('h2', {}, name(lock.show)), model.evict && lock.holders ? button : null),
        el('p', { class: 'facts' }, ...facts.slice(0, 3).map((f) => el('span', {}, f)), this.age),
        ...[...unread, ...asks].map((a) => el('p', { class: 'asked' }, el('bdi', {}, a))),
      );
      if (focused) this.head.querySelector(focused)?.focus();
    }
    write(this.age, facts[3]);
  }

  drawAdvice() {
    const lock = this.lock;
    const a = advice(lock, now(), model);
    const steps = JSON.stringify(a.steps.map((s) => ({ ...s, lock: s.lock?.n })));
    const text = JSON.stringify([a.level, a.message, steps, lock.n]);
    if (text === this.advised) return;
    this.advised = text;
    if (this.advice.contains(document.activeElement) || this.advice.contains(getSelection().anchorNode)) {
      // The user is about to copy a command: update only the message.
      const first = this.advice.querySelector('.message');
      if (first && this.adviceSteps === steps) return write(first, a.message);
    }
    this.adviceSteps = steps;
    this.advice.dataset.level = a.level;
    fill(
      this.advice,
      el('h3', {}, 'What to do'),
      el('p', { class: 'message' }, el('bdi', {}, a.message)),
      a.steps.length ? el('ol', {}, ...a.steps.map((s) => el('li', {}, el('bdi', {}, s.text), ...(s.command ? [' ', command(s.command)] : []), ...(s.lock ? [' ', lockLink(s.lock.name, s.lock.show)] : [])))) : null,
    );
  }

  drawPast() {
    const lock = this.lock;
    if (!lock) return;
    this.history.draw(this.past?.holds ?? [], now(), lock.at);
    const all = hints(this.past?.holds ?? [], lock, now());
    if (this.hints.textContent !== all.join('')) fill(this.hints, ...all.map((h) => el('li', {}, el('bdi', {}, h))));
    this.hints.hidden = !all.length;
  }

  yield() {
    if (this.past?.asked) withdraw(this.lock, this.toast).then(() => this.ask());
    else askDialog(this.lock, this.toast).then(() => this.ask());
  }

  entry(e) {
    entryDialog(this.lock, e, this.lock.entries.indexOf(e) + 1, this.toast).then(() => this.ask());
  }
}

function create() {
  const card = el('div', { class: 'card' });
  const p = (card.parts = {
    place: el('span', { class: 'place' }),
    state: el('span', { class: 'state' }),
    who: el('bdi', { class: 'who' }),
    time: el('span', { class: 'time' }),
    chips: el('div', { class: 'chips' }),
    more: el('div', { class: 'more' }),
  });
  card.append(el('div', { class: 'line' }, p.place, p.state, p.who, p.time), p.chips, p.more);
  return card;
}

function update(card, e, i) {
  const p = card.parts;
  const recorded = e.holder ? e.granted : e.asked;
  const since = recorded || e.seen;
  const ms = since ? Math.max(0, now() - since) : 0;
  const least = recorded ? '' : 'at least ';
  card.dataset.state = e.unleased ? 'bad' : e.holder ? 'holder' : 'waiter';
  card.dataset.level = e.holder || e.kind === 'election' ? '' : level(ms);
  write(p.place, String(i + 1));
  write(p.time, since ? `${e.holder ? 'holds for' : 'waits for'} ${least}${span(ms)}` : e.holder ? `holds${e.asked ? `, asked ${span(now() - e.asked)} ago` : ''}` : 'waits');
  if (card.entry === e && card.at === i) return; // the rest of an entry never changes
  card.entry = e;
  card.at = i;
  card.classList.toggle('with', !!e.with);
  write(p.state, e.holder ? 'holder' : 'waiter');
  write(p.who, ownerOf(e));
  p.who.title = ownerOf(e);
  const chips = [e.weight ? `${e.mode}, weight ${number(e.weight)}` : e.mode, e.kind, `token ${e.token}`];
  if (e.ttl) chips.push(`outlives its owner by ${span(e.ttl)} at most`);
  if (e.with && !e.holder) chips.push(`let in together with place ${i}`);
  if (e.foreign) chips.push('another program’s');
  if (e.unleased) chips.push('no session: never goes by itself');
  fill(p.chips, ...chips.filter(Boolean).map((c) => el('span', { class: 'chip' }, c)));
  const more = [e.session ? ['session', e.session] : null, e.value ? ['value', e.value] : null, e.holds?.length ? ['held already', e.holds.join(', ')] : null].filter(Boolean);
  fill(p.more, ...more.flatMap(([k, v]) => [el('span', { class: 'key' }, k), name(v, 'val')]));
}
