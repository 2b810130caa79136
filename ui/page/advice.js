// What an operator should do about a lock: who blocks it, for how long, and the next steps,
// the mildest first. It is a pure function of a lock and of the others that the page knows.

import { ownerOf } from './model.js';
import { argument, fairlock, span } from './text.js';

const worth = 30_000; // milliseconds; a shorter wait needs no action

// An owner records its grant after a second. Where reads have shown a hold without that for longer
// than this, the service refuses the record.
const unrecorded = 3000;

// advice returns {level, message, steps: [{text, command, lock}]}. Levels are calm, warn and
// bad. path are the names of the locks whose holders wait for this one, one for the other.
export function advice(lock, now, model, path = []) {
  const target = argument(lock.name);
  const dead = deadlockOf(lock, model);
  if (dead) return stuck(dead, lock, model);
  const place = lock.entries.findIndex((e) => e.unleased) + 1;
  const orphan = lock.entries[place - 1];
  const orphaned = orphan && `Place ${place}${path.length ? ` of ${lock.show}` : ''} has no session: no program will ever release it`;
  if (orphan && (orphan.holder || place === 1)) {
    const behind = lock.entries.length - place;
    return {
      level: 'bad',
      message: `${orphaned}${behind ? `, and ${count(behind)} behind it` : ''}.`,
      steps: [see(target, model), evict(orphan, target, model)],
    };
  }
  const a = present(lock, now, model, path);
  if (!orphan) return a;
  const step = evict(orphan, target, model);
  return { level: 'bad', message: `${a.message} ${orphaned}.`, steps: [...a.steps, { ...step, text: `Place ${place}: ${step.text}` }] };
}

// present is the advice about a lock of which each holder has a session.
function present(lock, now, model, path) {
  const target = argument(lock.name);
  const holders = lock.entries.filter((e) => e.holder);
  const waits = lock.oldest ? Math.max(0, now - lock.oldest) : 0;
  const of = path.length ? ` of ${lock.show}` : '';
  if (!holders.length && lock.hidden?.holder) {
    const waiting = lock.waiters ? `, and ${count(lock.waiters)}, the oldest for ${lock.least ? 'at least ' : ''}${span(waits)}` : '';
    return {
      level: waits > worth ? 'warn' : 'calm',
      message: `An entry${of} holds that this login may not read: ${lock.hidden.first}${waiting}.`,
      steps: waits > worth ? [{ ...see(target, model), text: 'See the queue with a login that may read it:' }] : [],
    };
  }
  if (!holders.length) {
    return {
      level: waits > worth ? 'warn' : 'calm',
      message: lock.waiters ? `No entry${of} holds at this moment: the first waiter is about to hold.` : 'No entry is left.',
      steps: waits > worth ? [see(target, model), { text: 'If that stays so, examine the service:', command: fairlock(model, `doctor ${target}`) }] : [],
    };
  }
  const first = holders[0];
  const several = holders.length > 1;
  const held = heldFor(first, now);
  const names = several ? `${ownerOf(first)} and ${count(holders.length - 1, 'other holder')}` : ownerOf(first);
  const hold = `${names} ${several ? 'hold' : 'holds'}${held.text && ` for ${held.text}`}`;
  if (lock.kind === 'election') {
    return { level: 'calm', message: `Nothing: ${first.value || ownerOf(first)} leads${held.text && ` for ${held.text}`}, and ${count(lock.waiters, 'candidate stands', 'candidates stand')} by.`, steps: [] };
  }
  if (!lock.waiters) return { level: 'calm', message: `Nothing: ${hold}, and no entry waits.`, steps: [] };
  const oldest = `the oldest for ${lock.least ? 'at least ' : ''}${span(waits)}`;
  if (waits < worth) return { level: 'calm', message: `Nothing yet: ${hold}, and ${count(lock.waiters)}, ${oldest}.`, steps: [] };
  const level = waits > 300_000 ? 'bad' : 'warn';
  const link = linkFrom(lock, holders, model);
  const next = link && model.byName.get(link.for);
  if (next && now - link.asked >= worth && next.kind !== 'election' && ![...path, lock.name].includes(next.name)) {
    const then = advice(next, now, { ...model, evict: false }, [...path, lock.name]); // its buttons are not on this pane
    return {
      level: then.level === 'bad' ? 'bad' : level,
      message: `${count(lock.waiters)} for ${lock.show}, ${oldest}: ${ownerOf(link)} holds it, and itself waits for ${next.show}, for ${span(now - link.asked)}. ${then.message}`,
      steps: [{ text: 'Open the queue of', lock: next }, ...then.steps],
    };
  }
  const end = `${next ? `, and now waits for ${next.show}` : ''}: ${count(lock.waiters)}, ${oldest}.`;
  const begun = first.asked && !first.granted && lock.at - (first.seen ?? lock.at) < unrecorded;
  if (begun || (held.ms && held.ms < waits / 3 && (first.granted || lock.least))) {
    return {
      level: 'warn',
      message: `The queue${of} moves, but slowly: ${names} ${begun ? `${several ? 'hold' : 'holds'} since a moment ago` : `${several ? 'have' : 'has'} held for only ${span(held.ms)}`}${end}`,
      steps: [
        { text: 'See in the history how long each hold takes. Shorter holds, or several locks in the place of one, help more than anything else.' },
        { text: 'Write a profile of who waits for whom:', command: fairlock(model, 'profile -O locks.pb.gz') },
      ],
    };
  }
  return {
    level,
    message: `${names} ${several ? 'block' : 'blocks'} the queue${of}${held.text && `, and ${several ? 'have' : 'has'} held for ${held.text}`}${end}`,
    steps: blocked(first, target, model),
  };
}

// blocked returns the steps against a holder that blocks a queue.
function blocked(first, target, model) {
  const steps = [];
  const container = first.pid === 1;
  if (first.foreign || !first.host) {
    steps.push({ text: `Find the program: it does not name its host. The service calls its session ${first.session || 'nothing'}, and its entry ${first.key}.` });
  } else {
    steps.push({
      text: `Look at ${container ? 'the container' : 'that process on'} ${first.host}: does it work, or wait for something else?`,
      command: first.pid > 1 ? `ps -fp ${first.pid}` : undefined,
    });
  }
  if (first.ttl) steps.push({ text: `If the process is dead, wait: its entry goes by itself, ${span(first.ttl)} after its last renewal at most.` });
  if (!first.foreign) {
    steps.push({ text: `Ask it to yield${model.evict ? ', with the button above or' : ''}:`, command: fairlock(model, `ask --reason 'please release' ${target}`) });
  }
  if (first.host && container) {
    steps.push({ text: `Else stop the container ${first.host} (docker stop, kubectl delete pod): SIGTERM lets it release. No two holders overlap then.` });
  } else if (first.host && first.pid > 1) {
    steps.push({ text: `Else stop the process on ${first.host} with SIGTERM, which lets it release. No two holders overlap then.`, command: `kill ${first.pid}` });
  }
  steps.push(evict(first, target, model));
  return steps;
}

// linkFrom returns the link from a lock to one that a holder waits for, if there is one. Of
// permits, all holders must wait: another one may release what the first waiter needs.
function linkFrom(lock, holders, model) {
  const waiting = (l) => model.byName.get(l.for)?.entries.some((e) => e.token === l.waits && !e.holder);
  const links = holders.map((h) => (model.waits.links ?? []).find((l) => l.in === lock.name && l.owns === h.token && waiting(l))).filter(Boolean);
  return lock.limit && links.length < holders.length ? undefined : links[0];
}

// heldFor returns for how long an entry has held, in milliseconds and as text; 0 and '' if that
// is not known, as where the clock of its host is ahead. Where the grant is not recorded, it is
// for how long the page's server has seen the hold.
function heldFor(e, now) {
  const since = e.granted || e.seen;
  const ms = since ? Math.max(0, now - since) : 0;
  return { ms, text: ms ? `${e.granted ? '' : 'at least '}${span(ms)}` : '' };
}

function see(target, model) {
  return { text: 'See the queue in a terminal:', command: fairlock(model, `who ${target}`) };
}

function evict(e, target, model) {
  return {
    text: `If you cannot reach ${e.unleased ? 'its maker' : 'the process'}, evict the entry${model.evict ? ', from its card below or in a terminal' : ''}. That breaks the lock: only a resource that checks tokens is safe.`,
    command: fairlock(model, `evict --token ${e.token} ${target}`),
  };
}

function deadlockOf(lock, model) {
  return (model.waits.deadlocks ?? []).find((d) => d.steps.some((s) => s.in === lock.name || s.for === lock.name));
}

function stuck(d, lock, model) {
  const shown = (n) => model.byName.get(n)?.show ?? n;
  const chain = d.steps.map((s) => `${ownerOf({ ...s, key: 'an owner' })} holds ${shown(s.in)} and waits for ${shown(s.for)}`);
  const victim = d.steps.find((s) => s.for === lock.name) ?? d.steps[0];
  return {
    level: 'bad',
    message: `A deadlock: ${chain.join('; ')}. None of them ever goes on by itself${d.behind ? `, and ${count(d.behind, 'more entry', 'more entries')} behind them` : ''}.`,
    steps: [
      { text: `Stop one of these processes, for example ${ownerOf({ ...victim, key: 'the owner' })}: it releases, and the others go on.`, command: victim.pid > 1 ? `kill ${victim.pid}` : undefined },
      evict({ token: victim.owns }, argument(victim.in), { ...model, evict: false }), // no card: the entry may be of another lock
      { text: 'Then have the program take its locks in one order, or all at once with mutex.LockAll.' },
    ],
  };
}

function count(n, one, several) {
  if (!one) return n === 1 ? '1 entry waits' : `${n} entries wait`;
  return `${n} ${n === 1 ? one : (several ?? `${one}s`)}`;
}
