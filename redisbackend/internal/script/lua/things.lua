-- Entries and records, and the notices of their changes.
--
-- An entry of queue q is a member of q:<q>, with its place as name and score, and up to four fields of
-- h:<q>: <place> is its header, <place>d its data, <place>x its detail, <place>w the sessions that watch it,
-- apart from its own. The header is
--   session mode weight valued marks changes
-- A record is a field of r:<q>: version:session:value; the session only if it is bound.
-- What a session owns are fields of s:<session>: e<place>:<q>, r<length of name>:<name>:<q>.
local function kq(q) return P .. 'q:' .. q end
local function kh(q) return P .. 'h:' .. q end
local function kr(q) return P .. 'r:' .. q end
local function ks(session) return P .. 's:' .. session end

-- A queue has a channel for all that happens to it, and a session has one for what happens to its entries
-- and to those that it watches.
local function tell(q, what) call('PUBLISH', P .. 'c::' .. q, what) end

-- Publishes the change or the end of an entry. by is the session that has done it, if the answer shows it that.
local function tellof(q, place, owner, watchers, what, by)
  what = what .. ':' .. place .. ':' .. q
  tell(q, what)
  if owner ~= by then call('PUBLISH', P .. 'c:' .. owner, what) end
  for session in string.gmatch(watchers or '', '%S+') do call('PUBLISH', P .. 'c:' .. session, what) end
end

-- The sessions that watch an entry, and one more; nil if that is the owner, or one of them. A session stays
-- there as long as the entry, so those that are over are taken out now and then.
local function watching(header, watchers, session)
  watchers = watchers or ''
  if string.find(header, session .. ' ', 1, true) == 1 or string.find(watchers, session, 1, true) then return nil end
  local _, n = string.gsub(watchers, '%S+', '')
  if n > 0 and n % 64 == 0 then
    watchers = string.gsub(watchers, '%S+ ', function(s) if not call('ZSCORE', P .. 'ses', string.sub(s, 1, -2)) then return '' end end)
  end
  return watchers .. session .. ' '
end

-- Deletes an entry with this header. first is whether none was ahead, as far as the notices are to report that.
local function remove(q, place, header, watchers, first, by)
  local owner, marks = string.match(header, '^(%S+) %S+ %S+ %S+ (%S+)')
  call('ZREM', kq(q), place)
  call('HDEL', kh(q), place, place .. 'd', place .. 'x', place .. 'w')
  call('HDEL', ks(owner), 'e' .. place .. ':' .. q)
  if call('EXISTS', kq(q)) == 0 then call('ZREM', P .. 'names', q) end
  tellof(q, place, owner, watchers, 'g' .. first .. ':' .. marks, by)
end

local function unrec(raw)
  local version, session, value = string.match(raw, '^(%d+):([^:]*):(.*)$')
  return version, session, value
end

local function item(record, q) return 'r' .. #record .. ':' .. record .. ':' .. q end

-- Ends a session with all that it owns.
local function drop(session)
  local k = ks(session)
  for _, owned in ipairs(call('HKEYS', k)) do
    local kind = string.sub(owned, 1, 1)
    if kind == 'e' then
      local place, q = string.match(owned, '^e(%d+):(.*)$')
      local e = call('HMGET', kh(q), place, place .. 'w')
      remove(q, place, e[1] or session .. ' 0 0 0 0 0', e[2], '0')
    elseif kind == 'r' then
      local length, rest = string.match(owned, '^r(%d+):(.*)$')
      local record, q = string.sub(rest, 1, length), string.sub(rest, length + 2)
      call('HDEL', kr(q), record)
      tell(q, 'r' .. record)
    end
  end
  call('DEL', k)
  call('ZREM', P .. 'ses', session)
end
