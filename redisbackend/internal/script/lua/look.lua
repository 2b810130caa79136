-- The state of watched targets, and the sessions that are waited for. If a session is given, that watches
-- those of the targets that are entries from now on.
-- ARGV: how many sessions to return that were renewed longest ago, how many other sessions, these, how
-- many targets, and of each: kind, queue, place or record.
local function look(session)
  local stalest = num()
  local sessions = {}
  local n = num()
  if n > 0 then
    local ids = {}
    for i = 1, n do ids[i] = nx() end
    local versions = call('ZMSCORE', P .. 'ses', unpack(ids))
    for i = 1, n do
      if versions[i] then sessions[#sessions + 1] = ids[i]; sessions[#sessions + 1] = versions[i] end
    end
  end
  if stalest > 0 then
    for _, x in ipairs(call('ZRANGE', P .. 'ses', 0, stalest - 1, 'WITHSCORES')) do sessions[#sessions + 1] = x end
  end
  local states = {}
  for i = 1, num() do
    local kind, q, what = nx(), nx(), nx()
    if kind == 'e' then
      local e = call('HMGET', kh(q), what, what .. 'w')
      local list = session and e[1] and watching(e[1], e[2], session)
      if list then call('HSET', kh(q), what .. 'w', list) end
      states[i] = e[1] or ''
    elseif kind == 'r' then states[i] = string.match(call('HGET', kr(q), what) or '', '^%d*')
    else states[i] = '' end
  end
  return {'OK', sessions, states}
end
