// Who waits for whom across locks: the deadlocks as rings, and all other owners that hold
// one lock and wait for another.

import { inDeadlock, model, now, ownerOf } from './model.js';
import { argument, command, el, fairlock, fill, lockLink, plural, span } from './text.js';

const section = () => document.getElementById('waits');
let drawn = '';

export function draw() {
  const w = model.waits;
  const text = JSON.stringify([w, !model.status.at]);
  if (text === drawn) return;
  drawn = text;
  if (!model.status.at) return fill(section(), el('h2', {}, 'Not read yet'));
  const dead = w.deadlocks ?? [];
  const stuck = inDeadlock();
  const others = (w.links ?? []).filter((l) => !(stuck.has(l.in) && stuck.has(l.for)));
  fill(
    section(),
    el('h2', {}, dead.length ? plural(dead.length, 'deadlock') : 'No deadlock'),
    dead.length ? null : el('p', { class: 'dim' }, 'No circle of owners that wait for each other is known. The page sees what entries claim: an owner that asks for a lock with the context of a hold.'),
    ...dead.map(ring),
    el('h2', {}, 'Owners that hold one lock and wait for another'),
    others.length ? el('ul', { class: 'links' }, ...others.map(linkItem)) : el('p', { class: 'dim' }, dead.length ? 'No others.' : 'None.'),
    w.more ? el('p', {}, `and ${plural(w.more, 'more')}`) : null,
  );
}

export function tick() {
  for (const e of section().querySelectorAll('[data-asked]')) e.textContent = ` for ${span(now() - Number(e.dataset.asked))}`;
}

const box = (n) => lockLink(n, model.byName.get(n)?.show, 'lock-box');

const since = (asked) => (asked ? el('span', { 'data-asked': asked }, ` for ${span(now() - asked)}`) : null);

// ring draws a deadlock: lock, its holder, the lock that this waits for, and so on round.
function ring(d) {
  const steps = d.steps.flatMap((s) => [
    el('li', { class: 'step' }, box(s.in)),
    el('li', { class: 'arrow' }, el('span', { class: 'owner' }, 'is held by ', el('bdi', {}, ownerOf({ ...s, key: 'an unnamed owner' })), `, token ${s.owns}, which waits`, since(s.asked), ' for'))
  ]);
  const victim = d.steps.at(-1);
  return el(
    'article',
    { class: 'ring' },
    el('ol', {}, ...steps, el('li', { class: 'step last' }, box(d.steps[0].in), el('span', { class: 'dim' }, ' again'))),
    el(
      'p',
      {},
      `None of them ever goes on by itself${d.behind ? `, nor ${plural(d.behind, 'entry').replace('entrys', 'entries')} behind them` : ''}. Stop one of the processes. If you cannot reach it, evict the entry with which it holds, which breaks that lock: `,
      command(fairlock(model, `evict --token ${victim.owns} ${argument(victim.in)}`)),
    ),
  );
}

function linkItem(l) {
  return el('li', {}, el('bdi', { class: 'who' }, ownerOf({ ...l, key: 'an unnamed owner' })), ' holds ', box(l.in), ` (token ${l.owns}) and waits`, since(l.asked), ' for ', box(l.for));
}
