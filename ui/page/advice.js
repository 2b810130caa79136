// What an operator should do about a lock: who blocks it, for how long, and the next steps,
// the mildest first. It is a pure function of a lock.

import { ownerOf } from './model.js';
import { argument, span } from './text.js';

const worth = 30_000; // milliseconds; a shorter wait needs no action

// advice returns {level, message, steps: [{text, command}]}. Levels are calm, warn and bad.
export function advice(lock, now, model) {
  const target = argument(lock.name);
  const inspect = { text: 'See the queue in a terminal:', command: `fairlock who ${target}` };
  const holders = lock.entries.filter((e) => e.holder);
  const waits = lock.oldest ? now - lock.oldest : 0;
  const dead = deadlockOf(lock, model);
  if (dead) return stuck(dead, lock, model);
  const orphan = lock.entries.find((e) => e.unleased);
  if (orphan) {
    return {
      level: 'bad',
      message: `Place ${lock.entries.indexOf(orphan) + 1} has no session: no program will ever release it${lock.waiters ? `, and ${count(lock.waiters)} behind it` : ''}.`,
      steps: [inspect, evict(orphan, target, model)],
    };
  }
  if (!holders.length) {
    return {
      level: waits > worth ? 'warn' : 'calm',
      message: lock.waiters ? 'No entry holds at this moment: the first waiter is about to hold.' : 'No entry is left.',
      steps: waits > worth ? [inspect, { text: 'If that stays so, examine the service:', command: `fairlock doctor ${target}` }] : [],
    };
  }
  const first = holders[0];
  const held = first.granted ? now - first.granted : 0;
  const several = holders.length > 1;
  const names = several ? `${ownerOf(first)} and ${count(holders.length - 1, 'other holder')}` : ownerOf(first);
  if (lock.kind === 'election') {
    return { level: 'calm', message: `Nothing: ${first.value || ownerOf(first)} leads${held ? ` for ${span(held)}` : ''}, and ${count(lock.waiters, 'candidate stands', 'candidates stand')} by.`, steps: [] };
  }
  if (!lock.waiters) {
    return { level: 'calm', message: `Nothing: ${names} ${several ? 'hold' : 'holds'}${held ? ` for ${span(held)}` : ''}, and no entry waits.`, steps: [] };
  }
  if (waits < worth) {
    return { level: 'calm', message: `Nothing yet: ${names} ${several ? 'hold' : 'holds'}${held ? ` for ${span(held)}` : ''}, and ${count(lock.waiters)}, the oldest for ${span(waits)}.`, steps: [] };
  }
  return blocked(lock, first, names, several, held, waits, target, model);
}

function blocked(lock, first, names, several, held, waits, target, model) {
  const turns = held && held < waits / 3;
  const message = turns
    ? `The queue moves, but slowly: ${names} ${several ? 'have' : 'has'} held for only ${span(held)}, and ${count(lock.waiters)}, the oldest for ${span(waits)}.`
    : `${names} ${several ? 'block' : 'blocks'} the queue${held ? `, and ${several ? 'have' : 'has'} held for ${span(held)}` : ''}: ${count(lock.waiters)}, the oldest for ${span(waits)}.`;
  const steps = [];
  if (turns) {
    steps.push({ text: 'See below how long each hold takes. Shorter holds, or several locks in the place of one, help more than anything else.' });
    steps.push({ text: 'Write a profile of who waits for whom:', command: 'fairlock profile -O locks.pb.gz' });
    return { level: 'warn', message, steps };
  }
  if (first.foreign || !first.host) {
    steps.push({ text: `Find the program: it does not name its host. The service calls its session ${first.session || 'nothing'}, and its entry ${first.key}.` });
  } else {
    steps.push({ text: `Look at that process on ${first.host}: does it work, or wait for something else?`, command: first.pid ? `ps -fp ${first.pid}` : undefined });
  }
  if (first.ttl) steps.push({ text: `If the process is dead, wait: its entry goes by itself, ${span(first.ttl)} after its last renewal at most.` });
  if (!first.foreign) {
    steps.push({ text: `Ask it to yield${model.evict ? ', with the button above or' : ''}:`, command: `fairlock ask --reason 'please release' ${target}` });
  }
  if (first.host && first.pid) steps.push({ text: `Else stop the process on ${first.host} with SIGTERM, which lets it release. No two holders overlap then.`, command: `kill ${first.pid}` });
  steps.push(evict(first, target, model));
  return { level: waits > 300_000 ? 'bad' : 'warn', message, steps };
}

function evict(e, target, model) {
  return {
    text: `If you cannot reach ${e.unleased ? 'its maker' : 'the process'}, evict the entry${model.evict ? ', from its card below or in a terminal' : ''}. That breaks the lock: only a resource that checks tokens is safe.`,
    command: `fairlock evict --token ${e.token} ${target}`,
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
      { text: `Stop one of these processes, for example ${ownerOf({ ...victim, key: 'the owner' })}: it releases, and the others go on.`, command: victim.pid ? `kill ${victim.pid}` : undefined },
      evict({ token: victim.owns }, argument(victim.in), {}), // no card: the entry may be of another lock
      { text: 'Then have the program take its locks in one order, or all at once with mutex.LockAll.' },
    ],
  };
}

function count(n, one, several) {
  if (!one) return n === 1 ? '1 entry waits' : `${n} entries wait`;
  return `${n} ${n === 1 ? one : (several ?? `${one}s`)}`;
}
