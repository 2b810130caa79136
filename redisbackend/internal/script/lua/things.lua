-- Entries and records, and the notices of their changes.
--
-- An entry of queue q is a member of q:<q>, with its place as name and score, and up to three fields of
-- h:<q>: <place> is its header, <place>d its data, <place>x its detail. The header is
--   session mode weight valued marks changes
-- A record is a field of r:<q>: version:session:value; the session only if it is bound.
-- What a session owns are fields of s:<session>: e<place>:<q>, r<length of name>:<name>:<q>.
local function kq(q) return P .. 'q:' .. q end
local function kh(q) return P .. 'h:' .. q end
local function kr(q) return P .. 'r:' .. q end
local function ks(session) return P .. 's:' .. session end

local function tell(q, what) call('PUBLISH', P .. 'c::' .. q, what) end
local function tellentry(q, place, what) call('PUBLISH', P .. 'c:' .. place .. ':' .. q, what) end

local function removed(q, place, first, marks)
  if call('EXISTS', kq(q)) == 0 then call('ZREM', P .. 'names', q) end
  tellentry(q, place, 'g' .. first)
  tell(q, marks >= '2' and 'h' or 'e') -- Admitted is 2
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
      local header = call('HGET', kh(q), place)
      call('ZREM', kq(q), place)
      call('HDEL', kh(q), place, place .. 'd', place .. 'x')
      if header then removed(q, place, '0', string.match(header, '(%d+) %d+$')) end
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
