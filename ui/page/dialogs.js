// The dialogs: an entry with all that it claims, and the questions before an action. Escape
// closes each; the focus begins at the answer that changes nothing.

import { model, now, ownerOf } from './model.js';
import { act } from './net.js';
import { argument, clock, command, el, fairlock, fill, name, span, write } from './text.js';

const dialog = () => document.getElementById('dialog');

// show shows a dialog, and resolves when it is closed.
export function show(title, ...content) {
  const d = dialog();
  fill(d, el('h2', { id: 'dialog-title' }, title), ...content);
  d.onclick = (e) => {
    if (e.target === d) d.close(); // outside of it; a handler that returns false cancels the click
  };
  if (!d.open) d.showModal();
  d.querySelector('[autofocus]')?.focus();
  return new Promise((closed) => d.addEventListener('close', () => closed(), { once: true }));
}

export const buttons = (...all) => el('div', { class: 'buttons' }, ...all);
export const button = (text, props, f) => el('button', { type: 'button', ...props, onclick: f }, text);

// entryDialog shows one entry in full.
export function entryDialog(lock, e, place, toast) {
  const facts = [
    ['State', e.holder ? 'holder' : 'waiter'],
    ['Place', `${place} of ${lock.entries.length}`],
    ['Token', e.token],
    ['Mode', e.weight ? `${e.mode}, weight ${e.weight}` : e.mode],
    ['Kind', e.kind],
    ['Host', e.host],
    ['Process', e.pid],
    ['Label', e.label],
    ['Asked', e.asked ? `${clock(e.asked)}, ${span(now() - e.asked)} ago` : ''],
    ['Granted', e.granted ? `${clock(e.granted)}, ${span(now() - e.granted)} ago` : ''],
    ['Outlives its owner', e.ttl ? `by ${span(e.ttl)} at most` : ''],
    ['Value', e.value],
    ['Generation', e.generation],
    ['Held already', e.holds?.join(', ')],
    ['Session', e.session],
    ['Key', e.key],
    ['Trace', e.trace],
    ['Made by', e.foreign ? 'another program' : ''],
    ['Warning', e.unleased ? 'it has no session and never goes by itself' : ''],
  ].filter(([, v]) => v);
  return show(
    el('span', {}, 'Entry of ', name(lock.show)),
    el('dl', {}, ...facts.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, el('bdi', {}, String(v)))])),
    el('p', { class: 'dim' }, 'Host, process, label, value, generation, times and trace are what the owner claims.'),
    model.evict ? null : el('p', {}, 'To evict it: ', command(fairlock(model, `evict --token ${e.token} ${argument(lock.name)}`))),
    buttons(
      button('Close', { autofocus: true }, () => dialog().close()),
      model.evict ? button('Evict …', { class: 'danger' }, () => evictQuestion(lock, e, toast)) : null,
    ),
  );
}

// evictQuestion asks whether an entry is to be evicted: exactly this one.
function evictQuestion(lock, e, toast) {
  const does = e.holder ? `holds ${e.granted ? `for ${span(now() - e.granted)}` : ''}` : `waits ${e.asked ? `for ${span(now() - e.asked)}` : ''}`;
  return show(
    'Evict this entry?',
    el('p', {}, el('bdi', {}, ownerOf(e)), ` ${does.trim()}, in `, name(lock.show), ` with token ${e.token}.`),
    e.holder
      ? el('p', { class: 'warn' }, 'This breaks the lock: the next waiter holds at once, while this holder may work on for a moment. Only a resource that checks tokens is safe. Ask it to yield first.')
      : el('p', {}, 'A waiter that is evicted joins the queue again at its end, if its program goes on.'),
    buttons(
      button('Keep it', { autofocus: true }, () => dialog().close()),
      button('Evict', { class: 'danger' }, async (click) => {
        click.target.disabled = true;
        const answer = await act('evict', { lock: lock.name, id: e.id, holder: !!e.holder });
        toast(answer.text, answer.done);
        dialog().close();
      }),
    ),
  );
}

// askDialog asks whether the holders of a lock are to be asked to yield.
export function askDialog(lock, toast) {
  const reason = el('input', { id: 'reason', maxlength: 200, placeholder: 'hotfix at noon', autocomplete: 'off', autofocus: true });
  const refused = el('p', { class: 'warn', role: 'alert', hidden: true });
  const send = async () => {
    const answer = await act('ask', { lock: lock.name, reason: reason.value });
    if (!answer.done) {
      refused.hidden = false; // and the dialog stays open: the reason is not lost
      write(refused, answer.text);
      return;
    }
    toast(answer.text, answer.done);
    dialog().close();
  };
  reason.addEventListener('keydown', (e) => e.key === 'Enter' && send());
  return show(
    'Ask the holders to yield?',
    el('p', {}, 'No holder of ', name(lock.show), ' is forced to: a program that does not subscribe to yield requests goes on. The request stands until it is withdrawn, or until the session of this page ends.'),
    el('label', { for: 'reason' }, 'Reason, for people'),
    reason,
    refused,
    buttons(
      button('Cancel', {}, () => dialog().close()),
      button('Ask', { class: 'primary' }, send),
    ),
  );
}

// withdraw withdraws the yield request of this page.
export async function withdraw(lock, toast) {
  const answer = await act('withdraw', { lock: lock.name });
  toast(answer.text, answer.done);
}
