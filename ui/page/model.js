// What the page knows: the locks as the server last sent them. Nothing here touches the
// document.

export const model = {
  locks: new Map(), // by number
  byName: new Map(),
  waits: {},
  status: { health: {} },
  interval: 1000,
  service: '',
  command: 'fairlock', // what commands begin with
  evict: false,
  token: '',
  seq: -1,
  offset: 0, // of the server's clock to this one, in milliseconds
  unreachable: 0, // since when the page's own server does not answer
  refused: false, // it answers, and sends no events
};

// secret is the token of the address with which this tab was opened. The address is rewritten
// without it, so that no copy of the address has it.
function secret() {
  const [, token] = location.hash.match(/^#token=([\w-]+)$/) ?? [];
  if (token) {
    sessionStorage.setItem('fairlock-token', token);
    history.replaceState(null, '', '#/locks');
  }
  return sessionStorage.getItem('fairlock-token') ?? '';
}

let revision = 0; // of the newest change of a lock

// now is the time by the server's clock: what entries claim is compared with that.
export const now = () => Date.now() + model.offset;

// load takes a whole state.
export function load(state) {
  model.locks.clear();
  model.byName.clear();
  for (const lock of state.locks ?? []) put(lock);
  model.waits = state.waits ?? {};
  for (const key of ['status', 'interval', 'service', 'command', 'seq']) model[key] = state[key];
  model.prefix = state.prefix ?? '';
  model.token = state.token ?? secret();
  model.evict = !!state.evict && model.token !== '';
}

// apply takes one tick, and reports whether it fits what is known.
export function apply(tick) {
  if (tick.seq <= model.seq) return true;
  if (tick.seq !== model.seq + 1) return false;
  for (const n of tick.gone ?? []) {
    const lock = model.locks.get(n);
    if (!lock) continue;
    model.locks.delete(n);
    if (model.byName.get(lock.name) === lock) model.byName.delete(lock.name);
  }
  for (const change of tick.locks ?? []) {
    if (change.whole) put(change);
    else if (!patch(change)) return false;
  }
  if (tick.all) for (const lock of model.locks.values()) lock.at = tick.status.at;
  for (const n of tick.read ?? []) {
    const lock = model.locks.get(n);
    if (lock) lock.at = tick.status.now;
  }
  if (tick.waits) model.waits = tick.waits;
  model.status = tick.status;
  model.seq = tick.seq;
  return true;
}

function put(lock) {
  lock.entries ??= [];
  lock.show ??= lock.name;
  model.locks.set(lock.n, lock);
  model.byName.set(lock.name, lock);
  count(lock);
}

function patch(change) {
  const lock = model.locks.get(change.n);
  if (!lock) return false;
  if (change.rm || change.set) {
    const gone = new Set(change.rm);
    const changed = new Map((change.set ?? []).map((e) => [e.id, e]));
    lock.entries = lock.entries.filter((e) => !gone.has(e.id)).map((e) => changed.get(e.id) ?? e);
  }
  if (change.add) lock.entries = lock.entries.concat(change.add);
  for (const key of ['at', 'kind', 'limit', 'asks', 'hidden']) lock[key] = change[key];
  count(lock);
  return true;
}

// count works out what the list of locks shows.
function count(lock) {
  lock.holders = 0;
  lock.oldest = 0; // when the waiter joined that waits longest
  lock.least = false; // or joined before: that is when it was first seen
  lock.held = 0; // when the first holder was granted
  lock.permits = 0;
  lock.orphan = false; // an entry without a session
  lock.hay = null;
  lock.rev = ++revision; // a lock that comes whole is a new object
  for (const e of lock.entries) {
    if (e.unleased) lock.orphan = true;
    if (e.holder) {
      lock.holders++;
      lock.permits += e.weight ?? 0;
      if (!lock.held) lock.held = e.granted ?? 0;
      continue;
    }
    const since = e.asked || e.seen;
    if (since && (!lock.oldest || since < lock.oldest)) {
      lock.oldest = since;
      lock.least = !e.asked;
    }
  }
  lock.waiters = lock.entries.length - lock.holders;
}

// ownerOf names the owner of an entry.
export function ownerOf(e) {
  if (!e.host) return e.foreign ? `another program's ${e.key ?? ''}` : (e.key ?? 'an unnamed owner');
  return e.host + (e.pid ? ` pid ${e.pid}` : '') + (e.label ? ` (${e.label})` : '');
}

// kind is the recipe of a lock, or what there is instead.
export const kind = (lock) => lock.kind || (lock.entries.length ? 'foreign' : '');

// inDeadlock returns the names of the locks that are part of a deadlock.
export function inDeadlock() {
  const names = new Set();
  for (const d of model.waits.deadlocks ?? []) for (const s of d.steps) names.add(s.in);
  return names;
}

// found returns the locks that contain a text in their names or entries, the one with the
// longest waiter first. Elections come last: their candidates stand by, and wait for long.
export function found(text) {
  const want = text.trim().toLowerCase();
  const all = [];
  for (const lock of model.locks.values()) {
    if (want && !hay(lock).includes(want)) continue;
    all.push(lock);
  }
  const late = Infinity;
  return all.sort(
    (a, b) =>
      (a.kind === 'election') - (b.kind === 'election') || (a.oldest || late) - (b.oldest || late) || b.waiters - a.waiters || (a.held || late) - (b.held || late) || (a.show < b.show ? -1 : 1),
  );
}

function hay(lock) {
  if (lock.hay === null) {
    const parts = [lock.show, kind(lock)];
    for (const e of lock.entries) parts.push(e.host ?? '', e.label ?? '', e.session ?? '', e.value ?? '', e.token, e.pid ? `pid ${e.pid}` : '');
    lock.hay = parts.join('\n').toLowerCase();
  }
  return lock.hay;
}

// sessions groups all entries by their service session, those with most entries first.
export function sessions(text = '') {
  const want = text.trim().toLowerCase();
  const all = new Map();
  for (const lock of model.locks.values()) {
    for (const e of lock.entries) {
      const id = e.session || `${e.key} (no session)`;
      let s = all.get(id);
      if (!s) {
        s = { id, host: e.host, pid: e.pid, label: e.label, key: e.key, foreign: e.foreign, ttl: e.ttl, unleased: e.unleased, holds: 0, waits: 0, entries: [] };
        all.set(id, s);
      }
      if (e.holder) s.holds++;
      else s.waits++;
      s.entries.push({ lock, entry: e });
    }
  }
  return [...all.values()]
    .filter((s) => !want || `${s.id}\n${ownerOf(s)}`.toLowerCase().includes(want))
    .sort((a, b) => b.entries.length - a.entries.length || (a.id < b.id ? -1 : 1));
}
