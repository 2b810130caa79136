// Texts and elements. Every text reaches the document through textContent.

// el makes an element. Properties beginning with "on" are listeners; others are
// attributes, and those that are false or null are left out.
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(key, String(value));
  }
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c);
  return e;
}

// fill replaces the children of an element. Those that are false or null are left out.
export function fill(e, ...children) {
  e.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// write sets a text if it differs, and returns the element.
export function write(e, text) {
  if (e.textContent !== text) e.textContent = text;
  return e;
}

// announce has a screen reader read a text. It is not used for what changes each second.
export const announce = (text) => write(document.getElementById('announcement'), text);

// name returns a text of another program: it does not change the direction of writing of the
// text next to it, and its title has all of it.
export function name(text, cls = 'name') {
  return el('bdi', { class: cls, title: text }, text);
}

// span is a duration in milliseconds with its two largest units.
export function span(ms) {
  if (!(ms > 0)) return '0 s';
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(Math.floor(s % 60))} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${pad(Math.floor((s % 86400) / 3600))} h`;
}

// short is a duration with its largest unit.
export function short(ms) {
  const s = ms / 1000;
  if (s < 1) return '0 s';
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

const pad = (n) => String(n).padStart(2, '0');

// clock is a time of day, with the date if it is another day.
export function clock(ms) {
  const d = new Date(ms);
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${time}`;
}

// plural is a number of things: "1 lock", "2 000 locks".
export function plural(n, what) {
  return `${number(n)} ${what}${n === 1 ? '' : 's'}`;
}

// number has its digits in groups of three.
export const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');

// quoted returns a name so that a shell reads it as one word.
export function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (/^[\x20-\x7e\p{L}\p{N}]*$/u.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  let out = '';
  for (const b of new TextEncoder().encode(text)) {
    const c = String.fromCharCode(b);
    out += b < 32 || b > 126 || c === "'" || c === '\\' ? `\\x${b.toString(16).padStart(2, '0')}` : c;
  }
  return `$'${out}'`;
}

// argument is quoted for the last argument of a command, so that no name is read as a flag.
export const argument = (text) => (text.startsWith('-') ? '-- ' : '') + quoted(text);

// fairlock is a command of fairlock on the service of the page.
export const fairlock = (model, rest) => `${model.command} ${rest}`;

// lockLink opens a lock, by its name as it is shown.
export const lockLink = (n, show = n, cls) => el('a', { class: cls, href: `#/lock/${encodeURIComponent(n)}` }, name(show));

// command is a command line with a button that copies it.
export function command(text) {
  const copy = el('button', { type: 'button', class: 'copy', 'aria-label': `Copy: ${text}` }, 'Copy');
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = 'Copied';
      setTimeout(() => (copy.textContent = 'Copy'), 1500);
    } catch {
      getSelection().selectAllChildren(copy.previousElementSibling); // so that ^C copies it
    }
  });
  return el('span', { class: 'command' }, el('code', {}, text), copy);
}

// level is how long a wait is: '', 'long' from 30 s on, 'very-long' from 5 min on.
export const level = (ms) => (ms >= 300_000 ? 'very-long' : ms >= 30_000 ? 'long' : '');
