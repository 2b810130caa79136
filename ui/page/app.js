// The page: which view is open, and what all views share.

import { model, now } from './model.js';
import { start } from './net.js';
import { announce, clock, number, plural, span, write } from './text.js';
import * as locks from './locks.js';
import * as sessions from './sessions.js';
import * as waits from './waits.js';

const views = { locks, waits, sessions };
const $ = (id) => document.getElementById(id);
let view = '';
let drawn = false;
let announced = ''; // the last state that a screen reader announced

// route shows the view of the address: #/locks, #/lock/NAME, #/waits or #/sessions.
function route() {
  const [, first = 'locks', rest = ''] = location.hash.match(/^#\/([a-z]+)(?:\/(.*))?$/) ?? [];
  const next = first === 'lock' || !Object.hasOwn(views, first) ? 'locks' : first;
  if (next !== view) {
    view = next;
    for (const id of Object.keys(views)) $(id).hidden = id !== view;
    for (const a of document.querySelectorAll('nav a')) {
      if (a.dataset.view === view) a.setAttribute('aria-current', 'page');
      else a.removeAttribute('aria-current');
    }
  }
  let name = null;
  if (first === 'lock') {
    try {
      name = decodeURIComponent(rest);
    } catch {
      name = null; // a broken address
    }
  }
  locks.show(name);
  draw();
}

// draw draws everything with the next picture, once however often it is called.
function draw() {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    counts();
    pulse();
    views[view].draw();
  });
}

function counts() {
  write($('service'), model.service + (model.prefix ? ` ${model.prefix}…` : ''));
  write($('count-locks'), model.locks.size ? number(model.locks.size) : '');
  const all = new Set();
  for (const lock of model.locks.values()) for (const e of lock.entries) all.add(e.session || e.key);
  write($('count-sessions'), all.size ? number(all.size) : '');
  const n = model.waits.deadlocks?.length ?? 0;
  write($('count-waits'), n ? number(n) : '');
  $('count-waits').classList.toggle('bad', n > 0);
  document.title = `${n ? `(${plural(n, 'deadlock')}) ` : ''}${model.service || 'Fairlock'} locks`;
}

// pulse shows how old the data is, and since when there is no answer.
function pulse() {
  const s = model.status;
  const age = s.at ? Math.max(0, now() - s.at) : 0;
  let state = 'live';
  let text = age < 2000 ? 'live' : `read ${span(age)} ago`;
  let banner = '';
  if (model.unreachable && Date.now() - model.unreachable > 1000) {
    state = 'lost';
    text = 'not connected';
    banner = `This page’s server does not answer since ${clock(model.unreachable)} (${span(Date.now() - model.unreachable)}). It connects again by itself.`;
  } else if (model.refused) {
    state = 'lost';
    text = 'not connected';
    banner = `This page’s server sends no changes: ${s.err || 'too many pages are open'}. The page asks again by itself.`;
  } else if (model.seq <= 0) {
    state = 'loading';
    text = 'reading';
  } else if (s.err) {
    state = 'old';
    text = `old: no answer for ${span(now() - s.since)}`;
    banner = `${model.service} does not answer since ${clock(s.since)} (${span(now() - s.since)}). The page goes on by itself when it does. The reason: ${s.err}.`;
  } else if (age > 3 * model.interval + 2000) {
    state = 'old';
    text = `old: read ${span(age)} ago`;
    banner = `The last answer is ${span(age)} old: the service or this connection is slow.`;
  }
  if (banner && s.at) banner += ` This is what was seen at ${clock(s.at)}.`;
  const news = state + (s.err ? ' error' : '');
  if (news !== announced && (banner || announced)) announce(banner || 'The page shows what is now.');
  if (state !== 'loading') announced = news;
  document.body.dataset.state = state;
  write($('pulse-text'), text);
  const b = $('banner');
  b.hidden = !banner;
  b.classList.toggle('lost', state === 'lost');
  write(b, banner);
}

// toast shows the result of an action.
export function toast(text, good) {
  const t = $('toast');
  t.hidden = false;
  t.className = good ? 'toast' : 'toast bad';
  write(t, text);
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (t.hidden = true), 8000);
}

addEventListener('hashchange', route);
addEventListener('keydown', (e) => {
  const typing = e.target.closest?.('input, textarea, dialog');
  if (e.key === '/' && !typing) {
    e.preventDefault();
    location.hash = '#/locks';
    $('search').focus();
  } else if (e.key === 'Escape' && !typing && location.hash.startsWith('#/lock/')) {
    location.hash = '#/locks';
    $('list').focus();
  }
});
setInterval(() => {
  if (document.hidden) return;
  pulse();
  views[view].tick();
}, 1000);

locks.init({ draw, toast });
sessions.init({ draw });
route();
start(draw);
