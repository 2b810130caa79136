// Rows is a list of any length of which only the visible rows are in the document. All
// rows have the height --row-h of the host. The host has the keyboard's focus, and one of
// the rows is active.

import { el } from './text.js';

let lists = 0;

export class Rows {
  // create makes the element of a row, update(element, item) fills it, open(item) is
  // called for Enter and clicks. scroller is the element that scrolls.
  constructor({ host, scroller, key, create, update, open }) {
    Object.assign(this, { host, scroller, key, create, update, open });
    this.id = `rows-${++lists}`;
    this.items = [];
    this.shown = new Map(); // by key
    this.active = null; // key
    this.selected = null; // key, of what is open
    scroller.addEventListener('scroll', () => this.render(), { passive: true });
    host.addEventListener('keydown', (e) => this.pressed(e));
    host.addEventListener('click', (e) => this.clicked(e));
    host.addEventListener('focus', () => this.focused());
    new ResizeObserver(() => this.measure()).observe(scroller);
    this.measure();
  }

  measure() {
    this.height = parseFloat(getComputedStyle(this.host).getPropertyValue('--row-h')) || 64;
    this.render();
  }

  // set replaces the items. The active row stays active if it is there.
  set(items) {
    this.items = items;
    this.at = new Map(items.map((item, i) => [this.key(item), i]));
    if (!this.at.has(this.active)) this.active = null;
    this.render();
  }

  // render puts the visible rows into the document, and takes out the others.
  render() {
    const n = this.items.length;
    this.host.style.height = `${n * this.height}px`;
    if (!this.host.offsetParent) return; // not shown
    const top = this.scroller.getBoundingClientRect().top - this.host.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / this.height) - 4);
    const last = Math.min(n, Math.ceil((top + this.scroller.clientHeight) / this.height) + 4);
    const wanted = new Map();
    for (let i = first; i < last; i++) wanted.set(this.key(this.items[i]), i);
    const active = this.at?.get(this.active);
    if (active !== undefined) wanted.set(this.active, active);
    for (const [key, row] of this.shown) {
      if (!wanted.has(key)) {
        row.remove();
        this.shown.delete(key);
      }
    }
    let after = null;
    for (const [key, i] of [...wanted].sort((a, b) => a[1] - b[1])) {
      let row = this.shown.get(key);
      if (!row) {
        row = this.create();
        row.classList.add('row');
        row.setAttribute('role', 'option');
        row.fairlockKey = key;
        this.shown.set(key, row);
      }
      // In the order in which they are shown, for users of screen readers.
      const next = after ? after.nextSibling : this.host.firstChild;
      if (row !== next || !row.isConnected) this.host.insertBefore(row, next);
      after = row;
      const y = `translateY(${i * this.height}px)`;
      if (row.style.transform !== y) row.style.transform = y;
      row.id = `${this.id}-${i}`;
      row.setAttribute('aria-posinset', i + 1);
      row.setAttribute('aria-setsize', n);
      row.setAttribute('aria-selected', key === this.selected);
      row.classList.toggle('active', key === this.active);
      this.update(row, this.items[i], i);
    }
    if (active !== undefined) this.host.setAttribute('aria-activedescendant', `${this.id}-${active}`);
    else this.host.removeAttribute('aria-activedescendant');
  }

  // tick fills the visible rows again: times go on.
  tick() {
    if (!this.host.offsetParent) return;
    for (const [key, row] of this.shown) {
      const i = this.at.get(key);
      if (i !== undefined) this.update(row, this.items[i], i);
    }
  }

  // select marks the row of what is open. The row becomes active only when another one is
  // opened: select is called at each tick, and the user may have gone on.
  select(key) {
    if (key !== this.selected && this.at?.has(key)) this.active = key;
    this.selected = key;
    this.render();
  }

  focused() {
    if (this.active === null && this.items.length) {
      this.active = this.at.has(this.selected) ? this.selected : this.key(this.items[0]);
      this.render();
    }
  }

  clicked(e) {
    const row = e.target.closest('.row');
    const i = row ? this.at.get(row.fairlockKey) : undefined;
    if (i === undefined) return;
    this.active = row.fairlockKey;
    this.render();
    this.open(this.items[i]);
  }

  pressed(e) {
    if (e.altKey || e.ctrlKey || e.metaKey || !this.items.length) return;
    const n = this.items.length;
    const at = this.at.get(this.active) ?? -1;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: n - 1 }[e.key];
    if (to !== undefined) this.move(Math.min(n - 1, Math.max(0, to)));
    else if ((e.key === 'Enter' || e.key === ' ') && at >= 0) this.open(this.items[at]);
    else return;
    e.preventDefault();
  }

  // move makes a row active, and scrolls so that it is visible.
  move(i) {
    this.active = this.key(this.items[i]);
    const view = this.scroller.getBoundingClientRect();
    const top = this.host.getBoundingClientRect().top + i * this.height;
    if (top < view.top) this.scroller.scrollTop += top - view.top;
    else if (top + this.height > view.bottom) this.scroller.scrollTop += top + this.height - view.bottom;
    this.render();
  }
}

// rowsHost makes the host of a list.
export const rowsHost = (label, cls) => el('div', { class: `rows ${cls}`, role: 'listbox', tabindex: 0, 'aria-label': label });
