// The connection to the page's server: a stream of ticks, and the whole state where a tick
// does not fit. It connects again by itself.

import { apply, load, model } from './model.js';

const again = 2000; // milliseconds until the next attempt

let source = null;
let build = '';
let loading = null;
let waiting = []; // ticks that came while the state was being loaded
let changed = () => {};
let retry = 0;
let lastEvent = 0; // when the last event came, or the last attempt to connect began

// start connects, and calls f whenever something has changed.
export function start(f) {
  changed = f;
  connect();
  // A browser opens six connections to a server, so a hidden page closes its own.
  let leave = 0;
  const turned = () => {
    clearTimeout(leave);
    if (document.hidden) leave = setTimeout(disconnect, 10_000);
    else if (!source) connect();
  };
  document.addEventListener('visibilitychange', turned);
  turned(); // a tab that is opened in the background is hidden from the start
  addEventListener('pageshow', (e) => e.persisted && !source && connect());
  setInterval(watch, 1000);
}

// watch connects anew if no event comes: an idle connection does not end by itself when the
// network has changed. A tick takes twelve seconds at most.
function watch() {
  if (!source || Date.now() - lastEvent < (model.unreachable ? 5000 : 15_000 + model.interval)) return;
  model.unreachable ||= lastEvent;
  disconnect();
  connect();
  changed();
}

function connect() {
  clearTimeout(retry);
  lastEvent = Date.now();
  source = new EventSource('events');
  source.addEventListener('hello', (e) => {
    const hello = JSON.parse(e.data);
    lastEvent = Date.now();
    if (build && hello.build !== build) return location.reload(); // another version
    build = hello.build;
    model.offset = hello.now - Date.now();
    model.unreachable = 0;
    model.refused = false;
    reload();
  });
  source.addEventListener('resync', () => {
    lastEvent = Date.now();
    reload();
  });
  source.addEventListener('message', (e) => {
    const tick = JSON.parse(e.data);
    lastEvent = Date.now();
    model.offset = tick.status.now - Date.now();
    model.unreachable = 0;
    if (loading) waiting.push(tick);
    else if (apply(tick)) changed();
    else reload();
  });
  source.addEventListener('error', () => {
    model.unreachable ||= Date.now();
    if (source?.readyState === EventSource.CLOSED) {
      disconnect();
      retry = setTimeout(connect, again);
      refused();
    }
    changed();
  });
}

// refused finds out whether the server is there, although it sends no events.
async function refused() {
  const state = await fetchState();
  if (!state || source?.readyState === EventSource.OPEN) return;
  load(state);
  model.unreachable = 0;
  model.refused = true;
  changed();
}

function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

// reload loads the whole state, and then the ticks that came meanwhile.
async function reload() {
  if (loading) return;
  loading = fetchState();
  const state = await loading;
  loading = null;
  const ticks = waiting;
  waiting = [];
  if (!state) {
    setTimeout(() => source && reload(), again);
    return;
  }
  load(state);
  for (const tick of ticks) if (!apply(tick)) return reload();
  changed();
}

async function fetchState() {
  try {
    const res = await fetch('state');
    return res.ok ? await res.json() : null;
  } catch {
    return null; // the stream shows that the server is gone
  }
}

// past loads the history of a lock.
export async function past(name) {
  try {
    const res = await fetch(`lock?name=${encodeURIComponent(name)}`);
    return res.ok ? await res.json() : null;
  } catch {
    return null;
  }
}

// act asks the server for an action, and returns whether it was done, with a sentence.
export async function act(what, order) {
  try {
    const res = await fetch(what, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Fairlock-Token': model.token },
      body: JSON.stringify(order),
    });
    const answer = await res.json();
    return { done: res.ok, text: answer.text };
  } catch {
    return { done: false, text: 'The page’s server does not answer: it is not known what was done. Look at the queue.' };
  }
}
